/* A fork-join pool: the caller is worker 0, the others spin briefly and then sleep. */
typedef void (*body_fn)(void *closure, int64_t begin, int64_t end, int64_t worker);

typedef struct parallel {
    void (*run)(void *ctx, body_fn body, void *closure, int64_t n);
    void *ctx;
    int64_t threads;
} parallel;

typedef struct pool {
    parallel table;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_t *threads;
    _Atomic int64_t round;
    _Atomic int64_t busy;
    _Atomic int stopping;
    body_fn body;
    void *closure;
    int64_t n, chunks;
} pool;

typedef struct helper {
    pool *owner;
    int64_t worker;
} helper;

static void pool_chunk(pool *p, int64_t worker) {
    if (worker >= p->chunks) return;
    int64_t begin = p->n * worker / p->chunks, end = p->n * (worker + 1) / p->chunks;
    if (begin < end) p->body(p->closure, begin, end, worker);
}

static void *pool_helper(void *argument) {
    helper me = *(helper *)argument;
    free(argument);
    pool *p = me.owner;
    int64_t seen = 0;
    for (;;) {
        for (int spin = 0; spin < 20000 && atomic_load(&p->round) == seen; spin++) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
        }
        pthread_mutex_lock(&p->mutex);
        while (atomic_load(&p->round) == seen) pthread_cond_wait(&p->wake, &p->mutex);
        seen = atomic_load(&p->round);
        pthread_mutex_unlock(&p->mutex);
        if (atomic_load(&p->stopping)) return NULL;
        pool_chunk(p, me.worker);
        atomic_fetch_sub(&p->busy, 1);
    }
}

static void pool_run(void *ctx, body_fn body, void *closure, int64_t n) {
    pool *p = ctx;
    if (n <= 0) return;
    if (p->table.threads == 1 || n == 1) {
        body(closure, 0, n, 0);
        return;
    }
    p->body = body, p->closure = closure, p->n = n;
    p->chunks = n < p->table.threads ? n : p->table.threads;
    atomic_store(&p->busy, p->table.threads - 1);
    pthread_mutex_lock(&p->mutex);
    atomic_fetch_add(&p->round, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->mutex);
    pool_chunk(p, 0);
    while (atomic_load(&p->busy) > 0) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

static void pool_free(pool *p, int64_t started) {
    atomic_store(&p->stopping, 1);
    pthread_mutex_lock(&p->mutex);
    atomic_fetch_add(&p->round, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->mutex);
    for (int64_t i = 0; i < started; i++) pthread_join(p->threads[i], NULL);
    free(p->threads);
    pthread_mutex_destroy(&p->mutex);
    pthread_cond_destroy(&p->wake);
}

/* Starts the threads; 0 if it went well. */
static int pool_start(pool *p, int64_t threads) {
    memset(p, 0, sizeof *p);
    p->table.run = pool_run, p->table.ctx = p, p->table.threads = threads;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->threads = calloc(threads > 1 ? threads - 1 : 1, sizeof *p->threads);
    for (int64_t i = 0; p->threads && i + 1 < threads; i++) {
        helper *h = malloc(sizeof *h);
        if (h) h->owner = p, h->worker = i + 1;
        if (!h || pthread_create(&p->threads[i], NULL, pool_helper, h)) {
            free(h);
            pool_free(p, i);
            return 1;
        }
    }
    return p->threads ? 0 : 1;
}

/* For kernels too short for several threads. */
static void serial_run(void *ctx, body_fn body, void *closure, int64_t n) {
    (void)ctx;
    if (n > 0) body(closure, 0, n, 0);
}

static const parallel serial __attribute__((unused)) = {serial_run, 0, 1};
