/* known_packages.c - the list, by the names under which code imports them. */
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
/* clang-format on */

void known_each(char letter, bool (*each)(void *user, view name), void *user)
{
    const char *const *list = letter == 'p' ? python : node;
    size_t n = letter == 'p' ? ARRAY_LEN(python) : ARRAY_LEN(node);
    for (size_t i = 0; i < n; i++)
        if (!each(user, view_of(list[i]))) return;
}

typedef struct {
    view name;
    bool found;
} wanted;

static bool is_it(void *user, view name)
{
    wanted *w = user;
    w->found = view_equal(w->name, name);
    return !w->found;
}

bool known_has(char letter, view name)
{
    wanted w = {name, false};
    known_each(letter, is_it, &w);
    return w.found;
}
