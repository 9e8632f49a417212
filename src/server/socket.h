/* socket.h - WebSockets. */
#ifndef SERVER_SOCKET_H
#define SERVER_SOCKET_H

#include "server/state.h"

/* The head of an upgrade is complete: upgrade, or refuse.  True: read on. */
bool socket_upgrade(connection *c);
/* From there on. */
extern const connection_type socket_connection;

#endif
