/* known_packages.c - the list of packages, by their import names. */
#include "exists/known_packages.h"

/* clang-format off */
static const char *const python[] = {
    "aiofiles", "aiohttp", "airflow", "alembic", "altair", "anthropic", "anyio", "argon2",
    "arrow", "asgiref", "asyncpg", "attr", "attrs", "azure", "babel", "bcrypt", "black", "bleach",
    "boto3", "botocore", "bs4", "cachetools", "catboost", "celery", "certifi", "cffi", "channels",
    "chardet", "charset_normalizer", "click", "cloudpickle", "colorama", "configobj", "coverage",
    "cryptography", "cv2", "cycler", "dash", "dask", "dateutil", "datasets", "decorator",
    "defusedxml", "deprecated", "diffusers", "discord", "django", "dns", "docker", "docutils",
    "dotenv", "duckdb", "elasticsearch", "email_validator", "environ", "exceptiongroup", "faker",
    "fastapi", "filelock", "flask", "flask_cors", "flask_login", "flask_sqlalchemy", "freezegun",
    "fsspec", "gensim", "geopandas", "gevent", "git", "github", "gradio", "graphene", "greenlet",
    "grpc", "gunicorn", "h11", "h2", "h5py", "httpcore", "httptools", "httpx", "huggingface_hub",
    "humanize", "hydra", "hypothesis", "idna", "imageio", "importlib_metadata", "isort",
    "itsdangerous", "jax", "jinja2", "jmespath", "joblib", "jose", "jsonpath_ng", "jsonschema",
    "jwt", "kafka", "keras", "kombu", "kubernetes", "langchain", "ldap3", "lightgbm", "litellm",
    "llvmlite", "loguru", "lxml", "markdown", "markdown_it", "markupsafe", "marshmallow",
    "matplotlib", "mlflow", "mock", "mongoengine", "more_itertools", "moto", "motor", "msgpack",
    "multidict", "mypy", "MySQLdb", "nacl", "nbformat", "networkx", "nltk", "notebook", "numba",
    "numpy", "oauthlib", "odoo", "onnx", "onnxruntime", "openai", "openpyxl", "opentelemetry",
    "orjson", "packaging", "pandas", "paramiko", "parse", "passlib", "pathspec", "peewee", "peft",
    "pendulum", "pexpect", "PIL", "pika", "platformdirs", "playwright", "plotly", "pluggy",
    "polars", "prefect", "prometheus_client", "prompt_toolkit", "protobuf", "psutil", "psycopg",
    "psycopg2", "pyarrow", "pyasn1", "pycparser", "pydantic", "pydantic_settings", "pydub",
    "pygame", "pygments", "pymongo", "pymysql", "pynput", "pyodbc", "pyparsing", "PyPDF2",
    "PyQt5", "PyQt6", "pyspark", "pytest", "pytz", "pywt", "qrcode", "rasterio", "ray", "rdflib",
    "redis", "referencing", "regex", "reportlab", "requests", "requests_oauthlib", "responses",
    "rest_framework", "rich", "rq", "ruamel", "s3fs", "scapy", "scipy", "scrapy", "seaborn",
    "selenium", "semver", "sentence_transformers", "sentry_sdk", "serial", "shapely",
    "simplejson", "six", "skimage", "sklearn", "slack_sdk", "smbus", "sniffio", "socketio",
    "sortedcontainers", "soupsieve", "spacy", "sqlalchemy", "sqlmodel", "sqlparse", "starlette",
    "statsmodels", "streamlit", "stripe", "structlog", "sympy", "tabulate", "telegram",
    "tenacity", "tensorflow", "termcolor", "textual", "tiktoken", "tokenizers", "toml", "tomli",
    "tomlkit", "toolz", "torch", "torchaudio", "torchvision", "tornado", "tox", "tqdm",
    "transformers", "trio", "tweepy", "twilio", "twisted", "typer", "typing_extensions",
    "tzlocal", "ujson", "urllib3", "uvicorn", "uvloop", "validators", "virtualenv", "wandb",
    "watchdog", "watchfiles", "weasyprint", "websocket", "websockets", "werkzeug", "wrapt",
    "wtforms", "wx", "xarray", "xgboost", "xlrd", "xlsxwriter", "xmltodict", "yaml", "yarl",
    "zmq", "zstandard",
};

static const char *const node[] = {
    "@angular/core", "@apollo/client", "@apollo/server", "@aws-sdk/client-s3", "@babel/core",
    "@emotion/react", "@emotion/styled", "@fastify/cors", "@hapi/hapi", "@mui/material",
    "@nestjs/common", "@nestjs/core", "@octokit/rest", "@playwright/test", "@prisma/client",
    "@reduxjs/toolkit", "@sentry/node", "@sveltejs/kit", "@tanstack/react-query",
    "@testing-library/react", "@trpc/server", "ajv", "amqplib", "apollo-server", "argon2",
    "async", "autoprefixer", "ava", "aws-sdk", "axios", "babel-loader", "bcrypt", "bcryptjs",
    "bluebird", "body-parser", "bootstrap", "bull", "bullmq", "chai", "chalk", "chart.js",
    "cheerio", "chokidar", "classnames", "clsx", "commander", "compression", "connect-redis",
    "cookie-parser", "cors", "cross-env", "cross-fetch", "crypto-js", "csv-parse", "cypress",
    "d3", "date-fns", "dayjs", "debug", "discord.js", "dotenv", "drizzle-orm", "ejs", "esbuild",
    "eslint", "execa", "express", "express-rate-limit", "express-session", "express-validator",
    "fast-glob", "fastify", "firebase", "firebase-admin", "formidable", "formik", "framer-motion",
    "fs-extra", "gatsby", "glob", "googleapis", "got", "graphql", "gulp", "handlebars", "helmet",
    "hono", "http-errors", "http-proxy-middleware", "husky", "i18next", "immer", "immutable",
    "inquirer", "ioredis", "jest", "joi", "jquery", "js-yaml", "jsdom", "jsonwebtoken", "kafkajs",
    "knex", "koa", "koa-router", "langchain", "lodash", "lodash-es", "lru-cache", "luxon",
    "mariadb", "marked", "minimist", "mkdirp", "mobx", "mocha", "moment", "mongodb", "mongoose",
    "morgan", "multer", "mysql", "mysql2", "nanoid", "next", "next-auth", "nock", "node-cron",
    "node-fetch", "nodemailer", "nodemon", "nuxt", "openai", "ora", "p-limit", "passport",
    "passport-jwt", "passport-local", "pg", "pg-promise", "pino", "pinia", "playwright",
    "postcss", "preact", "prettier", "prisma", "prop-types", "pug", "puppeteer", "qs", "ramda",
    "react", "react-dom", "react-hook-form", "react-native", "react-query", "react-redux",
    "react-router", "react-router-dom", "redis", "redux", "redux-saga", "redux-thunk",
    "reflect-metadata", "reselect", "rimraf", "rollup", "rxjs", "sass", "semver", "sequelize",
    "sharp", "sinon", "socket.io", "socket.io-client", "solid-js", "sqlite3", "stripe",
    "styled-components", "superagent", "supertest", "svelte", "swr", "tailwindcss", "tar",
    "three", "tslib", "tsx", "typeorm", "typescript", "underscore", "undici", "uuid", "validator",
    "vite", "vitest", "vue", "vue-router", "vuex", "webpack", "winston", "ws", "xml2js", "yaml",
    "yargs", "yup", "zod", "zustand",
};
static const char *const headers[] = {
    "ares.h", "archive.h", "avahi-client/client.h", "benchmark/benchmark.h", "bson.h",
    "boost/algorithm/string.hpp", "boost/asio.hpp", "boost/filesystem.hpp",
    "boost/program_options.hpp", "brotli/decode.h", "bzlib.h", "cairo.h", "catch2/catch.hpp",
    "check.h", "cjson/cJSON.h", "cmocka.h", "criterion/criterion.h", "curl/curl.h", "curses.h",
    "CUnit/Basic.h", "db.h", "Eigen/Dense", "ev.h", "event2/event.h", "expat.h", "fftw3.h",
    "fmt/core.h", "fmt/format.h", "freetype/freetype.h", "fuse.h", "gflags/gflags.h", "GL/glew.h",
    "GLFW/glfw3.h", "glib.h", "glm/glm.hpp", "glog/logging.h", "gmock/gmock.h", "gmp.h",
    "grpcpp/grpcpp.h", "gsl/gsl_math.h", "gst/gst.h", "gtest/gtest.h", "gtk/gtk.h",
    "hiredis/hiredis.h",
    "hwloc.h", "ini.h", "jansson.h", "jpeglib.h", "json-c/json.h", "json/json.h", "leveldb/db.h",
    "libavcodec/avcodec.h", "libgit2.h", "git2.h", "libpq-fe.h", "librdkafka/rdkafka.h",
    "libssh/libssh.h", "libusb-1.0/libusb.h", "libwebsockets.h", "libxml/parser.h", "lmdb.h",
    "lua.h", "lz4.h", "lzma.h", "magic.h", "microhttpd.h", "mosquitto.h", "mpfr.h", "mpi.h",
    "msgpack.h", "mysql/mysql.h", "ncurses.h", "nghttp2/nghttp2.h", "nlohmann/json.hpp",
    "opencv2/opencv.hpp", "openssl/ssl.h", "openssl/evp.h", "openssl/sha.h", "pcap.h", "pcre.h",
    "pcre2.h", "png.h", "portaudio.h", "pqxx/pqxx", "Python.h", "QApplication", "QtWidgets",
    "raylib.h", "rapidjson/document.h", "readline/readline.h", "rocksdb/db.h", "SDL2/SDL.h",
    "SDL.h", "SFML/Graphics.hpp", "snappy.h", "sodium.h", "spdlog/spdlog.h", "sqlite3.h",
    "tbb/tbb.h", "tiffio.h", "uuid/uuid.h", "uv.h", "valgrind/valgrind.h", "webp/decode.h",
    "X11/Xlib.h", "xxhash.h", "yaml.h", "yaml-cpp/yaml.h", "zip.h", "zlib.h", "zmq.h", "zstd.h",
};
/* clang-format on */

void known_each(char letter, bool (*each)(void *user, view name), void *user)
{
    const char *const *list = letter == 'p' ? python : letter == 'c' ? headers : node;
    size_t n = letter == 'p'   ? ARRAY_LEN(python)
               : letter == 'c' ? ARRAY_LEN(headers)
               : letter == 'j' ? ARRAY_LEN(node) : 0;
    for (size_t i = 0; i < n; i++)
        if (!each(user, view_of(list[i]))) return;
}

enum { SLIP_LETTERS_MIN = 6 };

/* Two letters exchanged, or one missing, extra or wrong; but not the first or the last, as names
 * chosen by people differ there: parse, sparse, parser. */
static bool is_slip(view wrong, view right)
{
    if (right.len < SLIP_LETTERS_MIN || wrong.len + 1 < right.len || wrong.len > right.len + 1)
        return false;
    size_t least = wrong.len < right.len ? wrong.len : right.len, from = 0, to = 0;
    while (from < least && wrong.ptr[from] == right.ptr[from]) from++;
    while (to < least - from &&
           wrong.ptr[wrong.len - 1 - to] == right.ptr[right.len - 1 - to])
        to++;
    size_t n_wrong = wrong.len - from - to, n_right = right.len - from - to;
    if (n_wrong == 2 && n_right == 2)
        return wrong.ptr[from] == right.ptr[from + 1] && wrong.ptr[from + 1] == right.ptr[from];
    return n_wrong <= 1 && n_right <= 1 && n_wrong + n_right && from && to;
}

typedef struct {
    view name;
    bool (*is)(view name, view known);
    bool found;
} wanted;

static bool look(void *user, view known)
{
    wanted *w = user;
    w->found = w->is(w->name, known);
    return !w->found;
}

static bool is_like_one(char letter, view name, bool (*is)(view name, view known))
{
    wanted w = {name, is, false};
    known_each(letter, look, &w);
    return w.found;
}

bool known_has(char letter, view name) { return is_like_one(letter, name, view_equal); }

bool known_is_slip(char letter, view name)
{
    return !known_has(letter, name) && is_like_one(letter, name, is_slip);
}
