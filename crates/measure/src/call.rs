//! A loaded kernel with its arguments, as the device that sampling drives.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use talweg_ir::DType;
use talweg_runtime::{KernelFn, ThreadPool};
use talweg_target::core_probe;

use crate::hand_over::{HandOver, evict};
use crate::region::Guarded;
use crate::resident::Outcome;
use crate::sampling::Device;
use crate::wire::Reply;

/// How long the threads wait for each other before they probe their cores.
const MEETING: Duration = Duration::from_micros(50);

/// A kernel with everything it is called with.
pub(crate) struct Call<'a> {
    pub function: KernelFn,
    /// The arguments.
    pub pointers: Vec<*mut u8>,
    pub workspace: *mut u8,
    pub pool: &'a ThreadPool,
    /// What the kernel reads: start and length.
    pub read: Vec<(*const u8, usize)>,
    /// The outputs in order, then the workspace.
    pub written: Guarded,
    pub outputs: Vec<(String, DType, Vec<usize>)>,
    /// The inputs that other kernels would have written: position of the argument and length.
    pub given: Vec<(usize, usize)>,
    /// The constants: start and length.
    pub constants: Vec<(*const u8, usize)>,
    /// What happens before each run, if anything.
    pub hand_over: Option<HandOver>,
    pub start: Instant,
}

impl Call<'_> {
    /// From here on threads hand inputs and outputs over to each other, and constants are cold, before each run.
    pub fn begin_hand_over(&mut self, inputs: bool, cold: bool) -> Outcome<()> {
        let written = &self.written;
        let outputs = (0..self.outputs.len()).map(|at| (written.pointer(at), written.contents(at).len()));
        let given: &[_] = if inputs { &self.given } else { &[] };
        let cold = if cold { self.constants.clone() } else { Vec::new() };
        let outputs = outputs.filter(|_| inputs);
        self.hand_over = Some(HandOver::new(&mut self.pointers, given, outputs, cold)?);
        Ok(())
    }

    fn run_once(&mut self) {
        // SAFETY: the pointers are those of the kernel's arguments, of the sizes it was compiled for, and the
        // workspace is as large as its description says. A kernel that goes astray ends this process only.
        unsafe { (self.function)(self.pointers.as_ptr(), self.workspace, self.pool.parallel()) };
    }

    /// Whether the kernel wrote outside of its outputs and workspace.
    pub fn check_guards(&self) -> Outcome<()> {
        let Some((index, distance)) = self.written.damage() else { return Ok(()) };
        let name = self.outputs.get(index).map_or("the workspace", |(name, ..)| name.as_str());
        let length = self.written.contents(index).len();
        let text = format!("byte {distance} of {name}, which has {length} bytes");
        Err(Box::new(Reply::Overrun { text }))
    }
}

impl Device for Call<'_> {
    fn now(&mut self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn run(&mut self, times: u32) -> f64 {
        let mut taken = Duration::ZERO;
        // Runs that nothing comes between are timed together.
        let (rounds, runs) = if self.hand_over.is_some() { (times, 1) } else { (1, times) };
        for _ in 0..rounds {
            if let Some(hand_over) = &self.hand_over {
                hand_over.perform(self.pool);
            }
            let begin = Instant::now();
            (0..runs).for_each(|_| self.run_once());
            taken += begin.elapsed();
        }
        taken.as_secs_f64()
    }

    fn flush(&mut self) {
        for &(start, bytes) in &self.read {
            evict(start, bytes);
        }
        for index in 0..=self.outputs.len() {
            evict(self.written.pointer(index), self.written.contents(index).len());
        }
    }

    /// The mean over the cores, all probed at once, since they may be one core's two hardware threads: threads that are
    /// done take over what others have not begun, so that a kernel is as fast as its cores on average.
    fn probe(&mut self) -> f64 {
        let threads = self.pool.threads();
        let (arrived, speeds) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(threads)));
        let probe = |_, _, _| {
            let begin = Instant::now();
            arrived.fetch_add(1, Ordering::Relaxed);
            // One thread may have to take the place of another that does not come.
            while arrived.load(Ordering::Relaxed) < threads && begin.elapsed() < MEETING {
                std::hint::spin_loop();
            }
            let speed = core_probe();
            speeds.lock().unwrap_or_else(PoisonError::into_inner).push(speed);
        };
        self.pool.run(threads as i64, probe);
        let speeds = speeds.into_inner().unwrap_or_else(PoisonError::into_inner);
        speeds.iter().sum::<f64>() / speeds.len().max(1) as f64
    }
}
