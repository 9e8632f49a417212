/* parts.c - prints the parts that a reader finds in standard input: parts FORM [STOP]. */
#include <cerium.h>
#include <stdio.h>

static int print(void *user, const cerium_part *part)
{
    static const char *const kinds[] = {"text", "thought", "call", "arguments", "end"};
    (void)user;
    printf("%s: %.*s\n", kinds[part->kind], (int)part->text_len, part->text);
    return CERIUM_OK;
}

int main(int argc, char **argv)
{
    const cerium_tool tool = {.name = "add", .parameters = "{\"type\":\"object\"}"};
    const char *stops[] = {argc > 2 ? argv[2] : ""};
    char text[4096];
    size_t n = fread(text, 1, sizeof text, stdin);
    cerium_reader *reader = NULL;
    cerium_error err = {0};
    int status = cerium_reader_open(&reader, argc > 1 ? argv[1] : NULL, &tool, 1, &err);
    if (!status && argc > 2) cerium_reader_set_stops(reader, stops, 1);
    if (!status) status = cerium_reader_feed(reader, text, n, print, NULL);
    if (!status) status = cerium_reader_end(reader, true, print, NULL);
    if (!status && cerium_reader_stopped_by(reader)) printf("stopped\n");
    cerium_reader_close(&reader);
    if (status) fprintf(stderr, "%s\n", err.message);
    return status != CERIUM_OK;
}
