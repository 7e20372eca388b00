/* Runs a compiled model once, on inputs of zeros, and prints how each output begins.
 *
 *     talweg compile model.onnx -o model.talweg
 *     cargo build --release -p talweg-runtime
 *     cc -I crates/runtime/include crates/runtime/examples/run_model.c target/release/libtalweg_runtime.a \
 *        -lpthread -ldl -lm -o run_model
 *     ./run_model model.talweg
 */
#include <stdio.h>
#include <string.h>

#include "talweg_runtime.h"

static int fail(void) {
    fprintf(stderr, "error: %s\n", talweg_last_error());
    return 1;
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: run_model FILE.talweg\n");
        return 2;
    }
    talweg_model *model = talweg_model_open(arguments[1]);
    if (!model) return fail();
    talweg_session *session = talweg_session_create(model, 0);
    if (!session) return fail();
    for (size_t at = 0; at < talweg_model_ports(model, 0); at++)
        memset(talweg_session_input(session, at), 0, talweg_model_port_bytes(model, 0, at));
    if (talweg_session_run(session)) return fail();
    for (size_t at = 0; at < talweg_model_ports(model, 1); at++) {
        float first;
        memcpy(&first, talweg_session_output(session, at), sizeof first);
        size_t numbers = talweg_model_port_bytes(model, 1, at) / sizeof first;
        printf("output %s: %zu numbers, the first is %g\n", talweg_model_port_name(model, 1, at), numbers, first);
    }
    talweg_session_free(session);
    talweg_model_free(model);
    return 0;
}
