/* panel_file.h - panels on disk: repacked once, mapped by every later start.
 *
 * A file holds all panels of one model in the layout of one build.  It is found by its name,
 * identified by its head, and used only after the hash of every chunk was verified: so writing it
 * needs no fsync, and a power cut, a full disk or a flipped bit cost only a repack.
 *
 * Files appear whole: they are written under another name and renamed, never changed in place nor
 * cut, so a mapping of one stays good when it is replaced or removed.  A lock on the new file
 * separates writers.  A file is used only if it belongs to this user, to root or to the model's
 * owner, and no other user may write to it. */
#ifndef MODEL_PANEL_FILE_H
#define MODEL_PANEL_FILE_H

#include "model/panel_header.h"

enum { PANEL_PLACES_MAX = 2, PANEL_TEXT_MAX = 400 };

/* Possible places of a model's panels, best first. */
typedef struct {
    char *paths[PANEL_PLACES_MAX]; /* owned; [n] */
    uint32_t n;
    const char *model_path; /* borrowed */
} panel_places;

/* Models with less than this are repacked faster than a file is found and checked. */
#define PANEL_BYTES_MIN (UINT64_C(64) << 20)

/* folder NULL: beside the model, else in the user's cache folder, and only from PANEL_BYTES_MIN on;
 * "off": nowhere; else in that folder, which is made if necessary.  Borrows model_path. */
CERIUM_CHECKED int panel_places_open(panel_places *places, const char *model_path,
                                     const char *folder, uint64_t panels_bytes);
void panel_places_close(panel_places *places);

/* A mapped file, its chunks not yet checked. */
typedef struct {
    uint8_t *panels; /* [key.bytes]; owned until the caller takes it; NULL: none was good */
    uint8_t *head;   /* owned */
    panel_key key;
    const char *path;          /* one of places->paths */
    char fault[PANEL_TEXT_MAX]; /* the fault of a rejected file; "": none was rejected */
} panel_map;

/* Map the first file of key with a correct head and size.  CERIUM_ERR_MEMORY; a missing or bad file
 * is not an error. */
CERIUM_CHECKED int panel_map_open(panel_map *map, const panel_places *places,
                                  const panel_key *key);
/* Is this chunk correct?  For disjoint chunks from any thread. */
bool panel_map_check(const panel_map *map, uint64_t chunk);
/* Unmaps panels that the caller did not take. */
void panel_map_close(panel_map *map);

typedef struct {
    int fd;           /* -1: not writing */
    const char *path; /* one of places->paths */
    char *new_path;   /* owned: the name until it is whole */
    unsigned mode;    /* of the file: as readable as the model, and read-only */
    panel_key key;
    uint64_t *hashes; /* owned [panel_n_chunks] */
    _Atomic int failed; /* errno of the first write that did */
    char fault[PANEL_TEXT_MAX]; /* why there is no file; "": another process writes it */
} panel_writer;

/* Begin a file of key in the first place that accepts one.  False, with fault: none does. */
bool panel_writer_open(panel_writer *writer, const panel_places *places, const panel_key *key);
/* Write a chunk of panels [key.bytes]; false after a failure.  For disjoint chunks, any thread. */
bool panel_writer_put(panel_writer *writer, uint64_t chunk, const uint8_t *panels);
/* After all chunks: give the file its name.  False, with fault: that or a write failed. */
bool panel_writer_finish(panel_writer *writer);
/* Removes an unfinished file. */
void panel_writer_close(panel_writer *writer);

#endif
