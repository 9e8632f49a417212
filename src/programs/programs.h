/* programs.h - the subcommands: each returns the exit status (0 done, 1 failed, 2 bad usage). */
#ifndef PROGRAMS_PROGRAMS_H
#define PROGRAMS_PROGRAMS_H

#include "programs/command_line.h"

extern const command_table run_command, complete_command, edit_command, serve_command;
extern const command_table solve_command, bench_command, verify_command;
extern const command_table lsp_command, mcp_command;
extern const command_table health_command;
extern const command_table perplexity_command, eval_command, tokenize_command, scan_command;
extern const command_table quantize_command, imatrix_command, convert_command, pull_command;
extern const command_table inspect_command, keys_command, usage_command, wafer_command;
extern const command_table wafer_plan_command, wafer_compare_command, wafer_validate_command;
extern const command_table wafer_simulate_command;

int program_run(int argc, char **argv);
int program_complete(int argc, char **argv);
int program_edit(int argc, char **argv);
int program_solve(int argc, char **argv);
int program_verify(int argc, char **argv);
int program_serve(int argc, char **argv);
int program_health(int argc, char **argv);
int program_bench(int argc, char **argv);
int program_lsp(int argc, char **argv);
int program_mcp(int argc, char **argv);
int program_perplexity(int argc, char **argv);
int program_eval(int argc, char **argv);
int program_tokenize(int argc, char **argv);
int program_scan(int argc, char **argv);
int program_quantize(int argc, char **argv);
int program_imatrix(int argc, char **argv);
int program_convert(int argc, char **argv);
int program_pull(int argc, char **argv);
int program_inspect(int argc, char **argv);
int program_wafer(int argc, char **argv);
int program_keys(int argc, char **argv);
int program_usage(int argc, char **argv);

#endif
