/* texts.h - the server's own texts for a model.  Private to protocol/. */
#ifndef PROTOCOL_TEXTS_H
#define PROTOCOL_TEXTS_H

extern const char text_base_instructions[];  /* of the catalog: working rules for a small model */
extern const char text_sum_up[];             /* compaction: the instruction */
extern const char text_summary_begins[];     /* before the summary, in later requests */
extern const char text_summary_unreadable[]; /* in place of another server's encrypted text */
extern const char text_image_note[];       /* in place of an image */
extern const char text_file_note[];        /* of a file that is not text */
extern const char text_no_result[];        /* of a call that was interrupted */
extern const char text_json_object[];        /* response_format without a schema */
extern const char text_json_schema[];        /* before the schema */

#endif
