/* admission.h - whether a request is taken now. */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include "server/state.h"

/* CERIUM_ERR_ARGUMENT with *e: 429 and when to come again, 503 while the server ends. */
CERIUM_CHECKED int admission_check(const server *s, const protocol_request *request,
                                   protocol_error *e);

#endif
