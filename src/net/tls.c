/* tls.c - OpenSSL's errors as errno. */
#include "net/tls.h"

#include <errno.h>
#include <limits.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/memory.h"

struct tls {
    SSL *ssl;
    bool wants_write;
};

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *user)
{
    static const unsigned char ours[] = "\x08http/1.1";
    (void)ssl;
    (void)user;
    int found =
        SSL_select_next_proto((unsigned char **)out, out_len, ours, sizeof ours - 1, in, in_len);
    return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

/* OpenSSL's newest reason, without its file and line. */
static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return text ? text : "unknown error";
}

int tls_context_open(tls_context **out, const char *cert, const char *key, cerium_error *err)
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context) return error_set(err, CERIUM_ERR_MEMORY, "no memory for TLS");
    int status = CERIUM_OK;
    if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
        status =
            error_set(err, CERIUM_ERR_IO, "%s: no certificate can be read: %s", cert, reason());
    else if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        status = error_set(err, CERIUM_ERR_IO, "%s: no key can be read: %s", key, reason());
    else if (SSL_CTX_check_private_key(context) != 1)
        status = error_set(err, CERIUM_ERR_IO, "%s: the key does not fit %s", key, cert);
    if (status) {
        SSL_CTX_free(context);
        return status;
    }
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    /* A client can request renegotiation at no cost to itself. */
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    /* A piece is written as far as the socket takes it, and may have moved before the rest is. */
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    *out = context;
    return CERIUM_OK;
}

void tls_context_close(tls_context **context)
{
    if (!context || !*context) return;
    SSL_CTX_free(*context);
    *context = NULL;
}

tls *tls_open(tls_context *context, int fd)
{
    tls *t = memory_zalloc(1, sizeof *t);
    if (!t) return NULL;
    t->ssl = SSL_new(context);
    if (!t->ssl || SSL_set_fd(t->ssl, fd) != 1) {
        tls_close(&t);
        return NULL;
    }
    SSL_set_accept_state(t->ssl);
    return t;
}

void tls_close(tls **t)
{
    if (!t || !*t) return;
    SSL_free((*t)->ssl);
    memory_free(*t);
    *t = NULL;
}

/* The errno of a call that did nothing. */
static ssize_t failed(tls *t, int result)
{
    int why = SSL_get_error(t->ssl, result);
    t->wants_write = why == SSL_ERROR_WANT_WRITE;
    ERR_clear_error();
    if (why == SSL_ERROR_ZERO_RETURN) return 0;
    errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : ECONNRESET;
    return -1;
}

ssize_t tls_read(tls *t, void *out, size_t len)
{
    ERR_clear_error();
    int n = SSL_read(t->ssl, out, len > INT_MAX ? INT_MAX : (int)len);
    if (n <= 0) return failed(t, n);
    t->wants_write = false;
    return n;
}

ssize_t tls_write(tls *t, const void *from, size_t len)
{
    ERR_clear_error();
    int n = SSL_write(t->ssl, from, len > INT_MAX ? INT_MAX : (int)len);
    if (n <= 0) {
        ssize_t result = failed(t, n);
        if (!result) errno = EPIPE;
        return -1;
    }
    t->wants_write = false;
    return n;
}

bool tls_wants_write(const tls *t)
{
    return t->wants_write;
}

void tls_end(tls *t)
{
    ERR_clear_error();
    if (SSL_is_init_finished(t->ssl)) SSL_shutdown(t->ssl);
    ERR_clear_error();
}
