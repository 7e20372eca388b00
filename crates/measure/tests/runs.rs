//! What a run does besides surviving: packing, threads, cold caches, the gate, sharing a pool.
#![cfg(target_arch = "x86_64")]

mod common;

use common::{Workshop, doubled};
use talweg_ir::{Array, DType, Nest};
use talweg_measure::{Gate, Sampling, Task};

/// `B[i] = P[i, 0] + A[i]`, where `P` is the transpose of the constant `W: f32[2, 256]`.
fn packed(name: &str) -> Nest {
    let text = format!(
        "nest {name} {{
  input A: f32[256]
  const W: f32[2, 256]
  packed P: f32[256, 2]
  output B: f32[256]
  pack P[i, j] = W[j, i]
  for i in 0..256 {{
    B[i] = P[i, 0] + A[i]
  }}
}}"
    );
    Nest::parse(&text).unwrap()
}

const PACKED: &str = "float *W = buffers[1], *P = buffers[2]; B = buffers[3]; (void)W;
    for (int i = 0; i < 256; i++) B[i] = P[2 * i] + A[i];";

#[test]
fn constants_are_packed_in_the_worker() {
    let workshop = Workshop::new();
    workshop.kernel("laid_out", PACKED);
    let measurer = workshop.measurer(|_| {});
    for seed in [1, 2] {
        let a = Array::random(DType::F32, &[256], seed);
        let w = Array::random(DType::F32, &[2, 256], seed + 100);
        let sum: Vec<f32> = a.as_f32().unwrap().iter().zip(w.as_f32().unwrap()).map(|(a, w)| a + w).collect();
        let b = Array::from_f32(DType::F32, &[256], &sum).unwrap();
        let task = Task::new(&[("A", &a), ("W", &w)], &[("B", &b)], 1e-6).unwrap();
        // The second candidate finds the constant packed; the second task must not.
        for result in measurer.measure_batch(&task, &[packed("laid_out"), packed("laid_out")]) {
            assert_eq!(result.unwrap().difference.unwrap().max_rel_error, 0.0);
        }
    }
    let without = Task::new(&[("A", &Array::zeros(DType::F32, &[256]))], &[], 0.0).unwrap();
    let error = measurer.measure_batch(&without, &[packed("laid_out")]).remove(0).unwrap_err();
    assert!(error.to_string().contains("`W`"), "{error}");
}

#[test]
fn outputs_without_reference_are_timed_but_not_checked() {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|_| {});
    let task = Task::new(&[("A", &Array::zeros(DType::F32, &[256]))], &[], 0.0).unwrap();
    let measured = measurer.measure_batch(&task, &[doubled("wrong")]).remove(0).unwrap();
    assert_eq!(measured.difference, None);
    assert!(!measured.samples.seconds.is_empty());
}

#[test]
fn pinned_threads_cold_caches_and_the_gate_work_together() {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|options| {
        options.pin = true;
        options.sampling = Sampling { cold_caches: true, gate: Some(Gate::default()), ..Sampling::default() };
    });
    let measured = measurer.measure_batch(&workshop.task(), &[doubled("good")]).remove(0).unwrap();
    let samples = &measured.samples;
    assert_eq!(samples.inner, 1);
    assert_eq!(samples.probes.len(), samples.seconds.len());
    assert!(samples.probes.iter().all(|p| *p > 0.0));
}

#[test]
fn kernels_that_find_the_caches_as_in_a_network_compute_the_same() {
    let workshop = Workshop::new();
    workshop.kernel("laid_out", PACKED);
    let a = Array::random(DType::F32, &[256], 3);
    let w = Array::random(DType::F32, &[2, 256], 4);
    let sum: Vec<f32> = a.as_f32().unwrap().iter().zip(w.as_f32().unwrap()).map(|(a, w)| a + w).collect();
    let b = Array::from_f32(DType::F32, &[256], &sum).unwrap();
    let task = Task::new(&[("A", &a), ("W", &w)], &[("B", &b)], 1e-6).unwrap();
    for (threads, hand_over, cold_constants) in
        [(1, true, true), (2, true, false), (2, false, true), (3, true, true)]
    {
        let measurer = workshop.measurer(|options| {
            options.threads = threads;
            options.sampling = Sampling { hand_over, cold_constants, ..Sampling::default() };
        });
        let measured = measurer.measure_batch(&task, &[packed("laid_out")]).remove(0).unwrap();
        assert_eq!(measured.difference.unwrap().max_rel_error, 0.0);
        assert!(measured.samples.min() > 0.0);
    }
}

#[test]
fn a_kernel_that_writes_its_input_is_found_out_in_a_network_too() {
    let workshop = Workshop::new();
    workshop
        .kernel("scribble", "((float *)buffers[0])[1] = 0; for (int i = 0; i < 256; i++) B[i] = 2 * A[i];");
    let measurer = workshop.measurer(|options| {
        options.threads = 2;
        options.sampling = Sampling { hand_over: true, ..Sampling::default() };
    });
    let error = measurer.measure_batch(&workshop.task(), &[doubled("scribble")]).remove(0).unwrap_err();
    assert_eq!(error.cause(), "run-crash-SIGSEGV", "{error}");
}

#[test]
fn parallel_loops_run_on_as_many_threads_as_asked() {
    // Each part of the loop writes the number of threads and its own end.
    let body =
        "const struct { void (*run)(void *, void *, void *, long); void *ctx; long threads; } *p = parallel;
    p->run(p->ctx, part, B, 256); if (p->threads != THREADS) B[0] = -1;";
    let prelude = "static void part(void *c, long begin, long end, long worker) {
    (void)worker; for (long i = begin; i < end; i++) ((float *)c)[i] = i; }\n";
    let workshop = Workshop::new();
    let counting: Vec<f32> = (0..256).map(|i| i as f32).collect();
    let b = Array::from_f32(DType::F32, &[256], &counting).unwrap();
    let task = Task::new(&[("A", &b)], &[("B", &b)], 0.0).unwrap();
    for threads in [1, 2, 3] {
        let name = format!("threads{threads}");
        workshop.kernel_after(&name, prelude, &body.replace("THREADS", &threads.to_string()));
        let measurer = workshop.measurer(|options| options.threads = threads);
        let result = measurer.measure_batch(&task, &[doubled(&name)]).remove(0);
        assert!(result.is_ok(), "{threads}: {result:?}");
    }
}

#[test]
fn a_pool_may_be_shared_and_tasks_may_alternate() {
    let workshop = Workshop::new();
    let measurer = workshop.measurer(|options| options.recycle_after = 5);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let task = workshop.task();
                let nests = vec![doubled("good"), doubled("wrong"), doubled("good")];
                let results = measurer.measure_batch(&task, &nests);
                let good: Vec<bool> = results.iter().map(Result::is_ok).collect();
                assert_eq!(good, [true, false, true], "{results:?}");
            });
        }
    });
}
