/* The C interface of talweg's runtime: running compiled models; below it, the thread pool and single kernels. */
#ifndef TALWEG_RUNTIME_H
#define TALWEG_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Alignment in bytes of every buffer and workspace handed to a kernel. */
#define TALWEG_BUFFER_ALIGNMENT 64

/* The body of a parallel loop: iterations begin..end (end excluded) as worker number `worker`. Must not throw. */
typedef void (*talweg_body)(void *closure, int64_t begin, int64_t end, int64_t worker);

/* How a kernel runs a parallel loop: parallel->run(parallel->ctx, body, closure, n). */
typedef struct talweg_parallel {
    void (*run)(void *ctx, talweg_body body, void *closure, int64_t n);
    void *ctx;
    int64_t threads;
} talweg_parallel;

/* A compiled kernel: its tensors, its workspace, and the table for its parallel loops. */
typedef void (*talweg_kernel)(uint8_t *const *buffers, uint8_t *workspace, const talweg_parallel *parallel);

typedef struct talweg_pool talweg_pool;
typedef struct talweg_object talweg_object;

/* The text of the last error on this thread; empty if there was none. Valid until the next error. */
const char *talweg_last_error(void);

/* A pool of `threads` threads, the caller of talweg_pool_run included; NULL on error. */
talweg_pool *talweg_pool_create(size_t threads);
/* Joins the threads and frees the pool. NULL is allowed. */
void talweg_pool_destroy(talweg_pool *pool);
/* The number of threads; 0 for NULL. */
size_t talweg_pool_threads(const talweg_pool *pool);
/* The table to pass to kernels, valid as long as the pool; NULL for NULL. */
const talweg_parallel *talweg_pool_parallel(const talweg_pool *pool);
/* Runs `body` on contiguous parts of 0..n, on each thread one after the other, and returns when all are done. */
void talweg_pool_run(const talweg_pool *pool, talweg_body body, void *closure, int64_t n);

/* Loads a position-independent ELF object; the bytes may be freed afterwards. NULL on error. */
talweg_object *talweg_object_load(const uint8_t *bytes, size_t len);
/* Unmaps the object. None of its functions may be running or be called again. NULL is allowed. */
void talweg_object_free(talweg_object *object);
/* The address of a symbol, to be cast to talweg_kernel for a kernel; NULL, with an error, if there is none. */
const void *talweg_object_symbol(const talweg_object *object, const char *name);

typedef struct talweg_model talweg_model;
typedef struct talweg_session talweg_session;

/* Loads a compiled model (`talweg compile model.onnx -o model.talweg`); NULL on error. */
talweg_model *talweg_model_open(const char *path);
/* The same from memory, which may be freed afterwards. */
talweg_model *talweg_model_from_memory(const uint8_t *bytes, size_t len);
/* Frees the model; sessions made from it stay usable. NULL is allowed. */
void talweg_model_free(talweg_model *model);
/* The number of inputs (is_output = 0) or outputs (is_output = 1). */
size_t talweg_model_ports(const talweg_model *model, int32_t is_output);
/* The name of an input or output, valid as long as the model; NULL if there is none. */
const char *talweg_model_port_name(const talweg_model *model, int32_t is_output, size_t index);
/* The number of axes; the extents are written to shape, at most `capacity` of them. */
size_t talweg_model_port_shape(const talweg_model *model, int32_t is_output, size_t index, int64_t *shape, size_t capacity);
/* The size in bytes; 0 if there is none. */
size_t talweg_model_port_bytes(const talweg_model *model, int32_t is_output, size_t index);

/* Memory and threads for a model, threads = 0 for one on each core; NULL on error. One run at a time. */
talweg_session *talweg_session_create(const talweg_model *model, size_t threads);
/* Frees the session. NULL is allowed. */
void talweg_session_free(talweg_session *session);
/* The memory of an input, 64-byte aligned, to be filled before a run and kept between runs. */
uint8_t *talweg_session_input(talweg_session *session, size_t index);
/* The memory of an output, to be read after a run. */
const uint8_t *talweg_session_output(const talweg_session *session, size_t index);
/* Runs the model on what the inputs' memory holds; 0 if it went well. */
int32_t talweg_session_run(talweg_session *session);

#ifdef __cplusplus
}
#endif

#endif
