#include "policy_in_c.h"

void exports_describe_describe(exports_describe_about_t *ret) {
    static text_t needs[6];
    needs[0] = TEXT("clock");
    needs[1] = TEXT("epochs");
    needs[2] = TEXT("kv");
    needs[3] = TEXT("log");
    needs[4] = TEXT("queue");
    needs[5] = TEXT("streams");
    *ret = (exports_describe_about_t){
        .name = TEXT("incumbent-in-c"),
        .version = TEXT("0.1.0"),
        .needs = {needs, sizeof needs / sizeof *needs},
    };
}
