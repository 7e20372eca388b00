//! The worker of this crate's own tests, with a builder that misbehaves on request.
//!
//! `worker DIR` is a worker. Nests with certain names make the builder fail in their way; an object `NAME.o` in the
//! directory stands for the nest of that name; everything else is compiled. `parent DIR` is a process with a pool whose
//! run worker is busy for ever; it prints the ids of its workers.

use std::path::PathBuf;
use std::time::Duration;

use talweg_ir::{Array, DType, Nest};
use talweg_measure::wire::{BuildRequest, Kernel};
use talweg_measure::{MeasureOptions, Measurer, Task, WorkerCommand, describe, worker_main_with};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("worker") => worker_main_with(build),
        Some("parent") => parent(),
        other => Err(format!("start it as worker or parent, not {other:?}").into()),
    }
}

fn directory() -> PathBuf {
    std::env::args_os().nth(2).unwrap_or_default().into()
}

fn build(request: &BuildRequest) -> Result<(Kernel, Vec<u8>), String> {
    let nest = Nest::parse(&request.nest).map_err(|e| e.to_string())?;
    match nest.name.as_str() {
        "build_abort" => std::process::abort(),
        "build_exit" => std::process::exit(3),
        "build_panic" => panic!("the builder panics"),
        "build_hang" => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        "build_hoard" => {
            let mut hoard = Vec::new();
            loop {
                hoard.push(std::hint::black_box(vec![1u8; 1 << 20]));
            }
        }
        "build_chatter" => {
            println!("this is no frame");
            eprintln!("{}", "chatter ".repeat(100_000));
        }
        _ => {}
    }
    match std::fs::read(directory().join(format!("{}.o", nest.name))) {
        Ok(object) => Ok((describe(&nest, "kernel", 0, 0)?, object)),
        Err(_) => talweg_measure::compile_nest(request),
    }
}

fn parent() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = MeasureOptions::new(talweg_target::Target::host())?;
    options.run_timeout = Duration::from_secs(600);
    let args = vec!["worker".into(), directory().display().to_string()];
    options.command = WorkerCommand { program: std::env::current_exe()?, args };
    let measurer = Measurer::new(options)?;
    measurer.start()?;
    for pid in measurer.worker_pids() {
        println!("{pid}");
    }
    println!("ready");
    let nest = Nest::parse(&std::fs::read_to_string(directory().join("endless.nest"))?)?;
    let input = Array::zeros(DType::F32, &[256]);
    let task = Task::new(&[("A", &input)], &[], 0.0)?;
    let result = measurer.measure_batch(&task, &[nest]);
    Err(format!("the endless kernel ended: {result:?}").into())
}
