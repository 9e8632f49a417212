/* wafer.c - `cerium wafer`: picks the part. */
#include "programs/programs.h"
#include "programs/terminal.h"
#include "programs/wafer.h"

int program_wafer(int argc, char **argv)
{
    static const struct {
        const char *name;
        char title[20];
        int (*main)(int argc, char **argv);
    } parts[] = {
        {"plan", "wafer plan", wafer_plan_main},
        {"compare", "wafer compare", wafer_compare_main},
        {"validate", "wafer validate", wafer_validate_main},
        {"simulate", "wafer simulate", wafer_simulate_main},
    };
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        command_print_help(&wafer_command, stdout);
        return 0;
    }
    const char *names[ARRAY_LEN(parts)];
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) names[i] = parts[i].name;
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(parts); i++) {
        if (strcmp(argv[1], parts[i].name)) continue;
        char title[sizeof parts[i].title];
        memcpy(title, parts[i].title, sizeof title);
        argv[1] = title;
        return parts[i].main(argc - 1, argv + 1);
    }
    const char *near = argc > 1 ? nearest_name(argv[1], names, ARRAY_LEN(names)) : NULL;
    if (near)
        return usage_error("wafer", "unknown part '%.40s'; did you mean %s?", argv[1], near);
    if (argc > 1) return usage_error("wafer", "unknown part '%.40s'", argv[1]);
    return usage_error("wafer", "say plan, compare, validate or simulate");
}
