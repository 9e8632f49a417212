/* mcp_server.h - the server's side of the Model Context Protocol, without clock, descriptors or
 * processes: a message in, messages out, calls of tools to a host.
 *
 * It serves both forms of the protocol: the handshake of 2024-11-05 to 2025-11-25, and requests
 * that carry their version, from 2026-07-28 on. */
#ifndef PROGRAMS_MCP_SERVER_H
#define PROGRAMS_MCP_SERVER_H

#include <jansson.h>

#include "base/memory.h"

enum { MCP_LINE_BYTES_MAX = 4 << 20, MCP_CALLS_MAX = 8 };

typedef struct mcp_server mcp_server;

typedef struct {
    void *user;
    void (*send)(void *user, view line); /* without its line break */
    /* Begin a call, which ends with mcp_server_end().  Arguments are an object with members of the
     * tool's schema.  NULL, or why it cannot begin. */
    const char *(*call)(void *user, uint32_t call, const char *tool, const json_t *arguments);
    void (*cancel)(void *user, uint32_t call); /* the call must report nothing further */
} mcp_host;

CERIUM_CHECKED int mcp_server_open(mcp_server **out, const mcp_host *host);
void mcp_server_close(mcp_server **s);
/* One line from the client. */
void mcp_server_take(mcp_server *s, view line);
/* A line of more than MCP_LINE_BYTES_MAX was skipped. */
void mcp_server_too_long(mcp_server *s);
/* The progress of a call; sent only if the client asked for it. */
void mcp_server_progress(mcp_server *s, uint32_t call, double at, double of, const char *text);
/* facts (or NULL) is taken. */
void mcp_server_end(mcp_server *s, uint32_t call, view text, json_t *facts, bool is_error);

#endif
