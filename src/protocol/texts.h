/* texts.h - what the server itself says to a model.  Private to protocol/. */
#ifndef PROTOCOL_TEXTS_H
#define PROTOCOL_TEXTS_H

extern const char text_base_instructions[];  /* of the catalog: how a small model does its work */
extern const char text_sum_up[];             /* compaction: the order */
extern const char text_summary_begins[];     /* before what it gave, in later requests */
extern const char text_summary_unreadable[]; /* in place of what another server wrote */
extern const char text_image_note[];       /* in place of an image */
extern const char text_file_note[];        /* of a file that is not text */
extern const char text_no_result[];        /* of a call that was interrupted */
extern const char text_json_object[];        /* response_format without a schema */
extern const char text_json_schema[];        /* before the schema */

#endif
