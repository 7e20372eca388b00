//! When to take samples, how many, and when to stop: the logic of timing, apart from any clock.
//!
//! [`sample`] drives a [`Device`], which in a worker is the loaded kernel with the machine's clock and in the tests
//! a script. After a warm-up it repeats the kernel often enough that one sample is long against the clock's
//! resolution, and takes samples until their median is known well enough or the time is used up.

use serde::{Deserialize, Serialize};

/// How to time a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Runs the kernel for at least this long before the first sample.
    pub warm_up_seconds: f64,
    /// One sample repeats the kernel until it takes at least this long.
    pub sample_seconds: f64,
    /// Samples to take before their spread may end the measurement.
    pub min_samples: u32,
    /// Samples that end the measurement whatever their spread.
    pub max_samples: u32,
    /// Time for all of it. One sample is always taken, however slow the kernel is.
    pub budget_seconds: f64,
    /// The measurement ends when the median is as certain as that of [`Sampling::min_samples`] samples with this
    /// [`Samples::spread`]: twice the spread takes four times the samples.
    pub target_spread: f64,
    /// Empties the caches before each sample, which is then a single run.
    pub cold_caches: bool,
    /// Rejects samples taken while the core was slow.
    pub gate: Option<Gate>,
    /// A kernel that needs more seconds than this in both of its first two runs is not sampled further; one that needs
    /// twice as many in its first is not run again, and that run is the only sample. Saves a search the time for
    /// candidates that cannot win.
    pub slower_than: Option<f64>,
    /// The seconds of the kernel to beat. One that stays behind it in run after run is not sampled further, and the
    /// smaller its distance the more runs it gets: see [`BEHIND`].
    pub rival: Option<f64>,
    /// Before each run every thread writes its part of the inputs and outputs, as the step before does in a network; the
    /// time of that does not count. Only kernels on several threads can tell.
    #[serde(default)]
    pub hand_over: bool,
    /// Before each run the constants are removed from all caches, as in a network whose weights do not fit them.
    #[serde(default)]
    pub cold_constants: bool,
}

/// How far behind its rival a kernel may be in the fastest of its first two, three, ... runs to be sampled further; the
/// last entry holds for all later ones.
pub const BEHIND: [f64; 3] = [1.15, 1.08, 1.05];

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling {
            warm_up_seconds: 1e-3,
            sample_seconds: 1e-4,
            min_samples: 7,
            max_samples: 100,
            budget_seconds: 0.1,
            target_spread: 0.02,
            cold_caches: false,
            gate: None,
            slower_than: None,
            rival: None,
            hand_over: false,
            cold_constants: false,
        }
    }
}

impl Sampling {
    /// Whether the fastest of a first run and that many samples is too slow to go on.
    fn is_slow(&self, fastest: f64, samples: u32) -> bool {
        let step = (samples as usize).clamp(1, BEHIND.len()) - 1;
        let behind = |rival: f64| fastest > rival * BEHIND[step];
        samples >= 1
            && (self.slower_than.is_some_and(|limit| fastest > limit) || self.rival.is_some_and(behind))
    }

    /// Whether so many samples with this spread tell the median well enough: its error shrinks with the root of their number.
    fn is_settled(&self, spread: f64, samples: u32) -> bool {
        let least = self.min_samples.max(2);
        samples >= least && spread <= self.target_spread * (f64::from(samples) / f64::from(least)).sqrt()
    }

    /// The same with numbers that can be written down: endless times become very long.
    pub(crate) fn finite(&self) -> Sampling {
        let finite = |x: f64| if x.is_nan() { 0.0 } else { x.clamp(0.0, 1e12) };
        Sampling {
            warm_up_seconds: finite(self.warm_up_seconds),
            sample_seconds: finite(self.sample_seconds),
            budget_seconds: finite(self.budget_seconds),
            target_spread: finite(self.target_spread),
            slower_than: self.slower_than.filter(|s| s.is_finite()),
            rival: self.rival.filter(|s| s.is_finite()),
            gate: self.gate.as_ref().map(|gate| Gate {
                min_fraction: finite(gate.min_fraction),
                reference: gate.reference.filter(|r| r.is_finite()),
                patience_seconds: finite(gate.patience_seconds),
                sensitivity: finite(gate.sensitivity),
            }),
            ..self.clone()
        }
    }
}

/// Waits for a core that runs at speed, and rejects a sample if it does not do so after it as well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The smallest acceptable probe value, as a fraction of the reference.
    pub min_fraction: f64,
    /// What the probe yields on an undisturbed core, as far as is known; a better value seen later takes its place.
    pub reference: Option<f64>,
    /// After this much time spent on waiting and on rejected samples the gate stays open. It comes on top of
    /// [`Sampling::budget_seconds`].
    pub patience_seconds: f64,
    /// How much a slow core slows a kernel down: a sample taken at the fraction `f` of the reference counts as
    /// `f^sensitivity` of its time, which is about what it would have taken on a core at full speed. Zero takes times
    /// as they are.
    #[serde(default)]
    pub sensitivity: f64,
}

/// The usual [`Gate::sensitivity`]. Over minutes in which neighbours came and went, the times of convolutions, a product and a
/// softmax grew by the probe to the power 0.64 to 0.83, on one thread and on two. A little less corrects few samples too far:
/// of the medians over 30 ms, nine in ten then lay between 0.90 and 1.31 of the time in calm moments, uncorrected between 1.0
/// and 1.95.
pub const SENSITIVITY: f64 = 0.6;

impl Default for Gate {
    fn default() -> Gate {
        Gate { min_fraction: 0.96, reference: None, patience_seconds: 0.1, sensitivity: 0.0 }
    }
}

/// What is timed: a kernel on a machine with a clock.
pub trait Device {
    /// Seconds since some fixed moment.
    fn now(&mut self) -> f64;
    /// Runs the kernel that many times; the seconds that the runs took.
    fn run(&mut self, times: u32) -> f64;
    /// Empties the caches of what the kernel uses.
    fn flush(&mut self);
    /// How fast the core is at this moment, in any unit: larger is faster.
    fn probe(&mut self) -> f64;
}

/// Why a measurement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// The median is certain enough.
    Settled,
    /// The largest number of samples was taken.
    Count,
    /// The time was used up.
    Budget,
    /// The kernel is slower than [`Sampling::slower_than`] or [`Sampling::rival`] allow.
    Slow,
}

/// The samples of one kernel. There is always at least one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Seconds of one run, one entry for each sample, in the order they were taken.
    pub seconds: Vec<f64>,
    /// How many runs each sample is the mean of.
    pub inner: u32,
    /// The probe's value for each sample, the mean of before and after; empty without a gate.
    pub probes: Vec<f64>,
    /// What each sample would have taken at full speed, by the gate's sensitivity; empty without a gate.
    pub at_full_speed: Vec<f64>,
    /// Samples thrown away because the core was slow.
    pub rejected: u32,
    /// Whether the gate gave up, so that the samples may come from a disturbed machine.
    pub gate_gave_up: bool,
    /// Why the measurement ended.
    pub stop: Stop,
    /// Seconds that a cache line takes from thread to thread, if that was the same before and after.
    pub distance: Option<f64>,
}

impl Samples {
    /// Before the first sample.
    fn none(inner: u32) -> Samples {
        let stop = Stop::Budget;
        let (seconds, probes, at_full_speed) = (Vec::new(), Vec::new(), Vec::new());
        let (rejected, gate_gave_up, distance) = (0, false, None);
        Samples { seconds, inner, probes, at_full_speed, rejected, gate_gave_up, stop, distance }
    }

    /// The middle sample.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The first quartile: what the kernel takes when little disturbs it, yet no single lucky sample.
    pub fn low_quantile(&self) -> f64 {
        self.quantile(0.25)
    }

    /// The fastest sample.
    pub fn min(&self) -> f64 {
        self.quantile(0.0)
    }

    /// Drops the samples whose probe is below `least`, which a better reference found out only later, unless that
    /// leaves none.
    fn keep_calm(&mut self, least: f64) {
        let calm: Vec<bool> = self.probes.iter().map(|probe| *probe >= least).collect();
        if calm.contains(&true) && calm.contains(&false) {
            for list in [&mut self.seconds, &mut self.at_full_speed, &mut self.probes] {
                let mut keep = calm.iter();
                list.retain(|_| *keep.next().unwrap_or(&true));
            }
            self.rejected += (calm.len() - self.probes.len()) as u32;
        }
    }

    /// The distance of the quartiles as a fraction of the median.
    pub fn spread(&self) -> f64 {
        spread(&self.seconds)
    }

    /// The value below which the fraction `q` of the samples lies, interpolated between neighbours.
    pub fn quantile(&self, q: f64) -> f64 {
        quantile(&self.seconds, q)
    }

    /// The best guess of each sample at full speed: the samples themselves without a gate.
    pub fn best_guess(&self) -> &[f64] {
        if self.at_full_speed.is_empty() { &self.seconds } else { &self.at_full_speed }
    }
}

fn spread(values: &[f64]) -> f64 {
    let median = quantile(values, 0.5);
    if median > 0.0 { (quantile(values, 0.75) - quantile(values, 0.25)) / median } else { 0.0 }
}

fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// Times the kernel of a device. `first` is what the kernel took if it was just run: that run is then the warm-up if it
/// was long enough to be one.
pub fn sample(settings: &Sampling, device: &mut impl Device, first: Option<f64>) -> Samples {
    let start = device.now();
    let deadline = start + settings.budget_seconds;
    let long = first.filter(|seconds| *seconds >= settings.warm_up_seconds);
    let once = long.unwrap_or_else(|| warm_up(settings, device, start));
    if settings.slower_than.is_some_and(|limit| once > 2.0 * limit) {
        return Samples { seconds: vec![once], stop: Stop::Slow, ..Samples::none(1) };
    }
    let inner = if settings.cold_caches { 1 } else { repeats(settings.sample_seconds, once) };
    let mut gate = settings.gate.clone().map(OpenGate::new);
    let mut samples = Samples::none(inner);
    let mut last_probe = None;
    loop {
        // The probe after one sample is the probe before the next.
        let before = gate.as_mut().map(|gate| gate.wait(device, last_probe.take()));
        if settings.cold_caches {
            device.flush();
        }
        let begin = device.now();
        let seconds = device.run(inner).max(0.0) / f64::from(inner);
        let after = gate.as_ref().map(|_| device.probe());
        let probes = before.zip(after);
        let slower = probes.map(|(before, after)| before.min(after));
        let passed = gate.as_mut().zip(slower).is_none_or(|(gate, probe)| gate.passes(probe));
        if passed {
            samples.seconds.push(seconds);
            if let (Some(gate), Some((before, after))) = (&gate, probes) {
                let probe = (before + after) / 2.0;
                samples.probes.push(probe);
                samples.at_full_speed.push(seconds * gate.factor(probe));
            }
        } else if let Some(gate) = &mut gate {
            gate.lost += device.now() - begin;
            samples.rejected += 1;
        }
        last_probe = after;
        let late = device.now() >= deadline + gate.as_ref().map_or(0.0, |gate| gate.lost);
        if samples.seconds.is_empty() {
            continue;
        }
        let taken = samples.seconds.len() as u32;
        if settings.is_settled(spread(samples.best_guess()), taken) {
            samples.stop = Stop::Settled;
            break;
        }
        let fastest = quantile(samples.best_guess(), 0.0);
        if settings.is_slow(once.min(fastest), taken) {
            samples.stop = Stop::Slow;
            break;
        }
        if taken >= settings.max_samples.max(1) {
            samples.stop = Stop::Count;
            break;
        }
        if late {
            break;
        }
    }
    if let Some(gate) = gate {
        samples.gate_gave_up = gate.gave_up();
        samples.keep_calm(gate.best * gate.settings.min_fraction);
    }
    samples
}

/// Runs until the warm-up is over; returns the fastest single run seen.
fn warm_up(settings: &Sampling, device: &mut impl Device, start: f64) -> f64 {
    let mut fastest = f64::INFINITY;
    let mut times = 1u32;
    loop {
        fastest = fastest.min(device.run(times).max(0.0) / f64::from(times));
        let spent = device.now() - start;
        if spent >= settings.warm_up_seconds || spent >= settings.budget_seconds {
            return fastest;
        }
        // Doubling keeps the clock out of the way of very short kernels.
        times = times.saturating_mul(2).min(1 << 20);
    }
}

/// How many runs of `once` seconds fill a sample.
fn repeats(sample_seconds: f64, once: f64) -> u32 {
    if once <= 0.0 {
        return 1 << 20;
    }
    (sample_seconds / once).ceil().clamp(1.0, f64::from(1 << 20)) as u32
}

struct OpenGate {
    settings: Gate,
    /// The best probe so far.
    best: f64,
    /// Seconds spent on waiting and on rejected samples.
    lost: f64,
}

impl OpenGate {
    fn new(settings: Gate) -> OpenGate {
        let best = settings.reference.unwrap_or(0.0);
        OpenGate { settings, best, lost: 0.0 }
    }

    fn gave_up(&self) -> bool {
        self.lost >= self.settings.patience_seconds
    }

    /// Probes until the core is at speed or patience ends; returns the last probe.
    fn wait(&mut self, device: &mut impl Device, known: Option<f64>) -> f64 {
        let mut probe = known.unwrap_or_else(|| device.probe());
        while !self.passes(probe) {
            let begin = device.now();
            probe = device.probe();
            // A clock that stands still must not keep the gate shut for ever.
            self.lost += (device.now() - begin).max(1e-6);
        }
        probe
    }

    /// What a sample's time is to be multiplied by.
    fn factor(&self, probe: f64) -> f64 {
        let speed = if self.best > 0.0 { (probe / self.best).clamp(0.1, 1.0) } else { 1.0 };
        speed.powf(self.settings.sensitivity)
    }

    fn passes(&mut self, probe: f64) -> bool {
        self.best = self.best.max(probe);
        self.gave_up() || probe >= self.best * self.settings.min_fraction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel whose time and a core whose speed are given for each call.
    struct Script<T, P> {
        clock: f64,
        calls: Vec<u32>,
        flushes: u32,
        seconds: T,
        probes: u32,
        speed: P,
    }

    impl<T: FnMut(usize) -> f64, P: FnMut(u32) -> f64> Device for Script<T, P> {
        fn now(&mut self) -> f64 {
            self.clock
        }
        fn run(&mut self, times: u32) -> f64 {
            self.calls.push(times);
            let seconds = (self.seconds)(self.calls.len() - 1) * f64::from(times);
            self.clock += seconds;
            seconds
        }
        fn flush(&mut self) {
            self.flushes += 1;
        }
        fn probe(&mut self) -> f64 {
            self.probes += 1;
            self.clock += 1e-5;
            (self.speed)(self.probes - 1)
        }
    }

    fn script<T: FnMut(usize) -> f64, P: FnMut(u32) -> f64>(seconds: T, speed: P) -> Script<T, P> {
        Script { clock: 5.0, calls: Vec::new(), flushes: 0, seconds, probes: 0, speed }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs()
    }

    #[test]
    fn steady_kernel_ends_with_the_fewest_samples() {
        let mut device = script(|_| 3e-6, |_| 1.0);
        let samples = sample(&Sampling::default(), &mut device, None);
        assert_eq!(samples.stop, Stop::Settled);
        assert_eq!(samples.seconds.len(), 7);
        assert_eq!(samples.inner, 34);
        assert!(close(samples.median(), 3e-6));
        assert!(samples.probes.is_empty() && !samples.gate_gave_up);
        assert_eq!((device.probes, device.flushes), (0, 0));
    }

    #[test]
    fn noise_is_sampled_until_the_count() {
        let mut device = script(|n| if n % 2 == 0 { 1e-4 } else { 2e-4 }, |_| 1.0);
        let settings = Sampling { max_samples: 40, budget_seconds: 10.0, ..Sampling::default() };
        let samples = sample(&settings, &mut device, None);
        assert_eq!(samples.stop, Stop::Count);
        assert_eq!(samples.seconds.len(), 40);
        assert!(samples.spread() > 0.5);
        assert!(close(samples.low_quantile(), 1e-4));
        assert!(close(samples.min(), 1e-4));
    }

    #[test]
    fn a_wider_spread_takes_more_samples_and_ends_too() {
        // Times between -3 and +3 %, in an order without runs of equal ones.
        let mut device = script(|n| 1e-4 * (1.0 + 0.01 * ((n * 5 % 7) as f64 - 3.0)), |_| 1.0);
        let settings = Sampling { budget_seconds: 10.0, ..Sampling::default() };
        let samples = sample(&settings, &mut device, None);
        assert_eq!(samples.stop, Stop::Settled);
        let (spread, taken) = (samples.spread(), samples.seconds.len());
        assert!(spread > settings.target_spread, "{spread}");
        let needed = (7.0 * (spread / settings.target_spread).powi(2)).ceil() as usize;
        assert!(taken.abs_diff(needed) <= 3, "{taken} taken, {needed} needed at a spread of {spread}");
    }

    #[test]
    fn slow_kernel_is_run_twice_only() {
        let mut device = script(|_| 3.0, |_| 1.0);
        let samples = sample(&Sampling::default(), &mut device, None);
        assert_eq!(samples.stop, Stop::Budget);
        assert_eq!(device.calls, [1, 1]);
        assert!(close(samples.median(), 3.0));
    }

    #[test]
    fn a_kernel_that_cannot_win_is_not_sampled() {
        let measure = |limit: f64| {
            let mut device = script(|_| 3e-3, |_| 1.0);
            let settings = Sampling { slower_than: Some(limit), ..Sampling::default() };
            let samples = sample(&settings, &mut device, None);
            (samples.stop, samples.seconds.len(), device.calls.len())
        };
        assert_eq!(measure(1e-3), (Stop::Slow, 1, 1));
        assert_eq!(measure(2e-3), (Stop::Slow, 1, 2));
        assert_eq!(measure(4e-3), (Stop::Settled, 7, 8));
    }

    #[test]
    fn a_kernel_that_was_just_run_needs_no_warm_up() {
        let measure = |first: f64, limit: f64| {
            let mut device = script(|_| 3e-3, |_| 1.0);
            let settings = Sampling { slower_than: Some(limit), ..Sampling::default() };
            let samples = sample(&settings, &mut device, Some(first));
            (samples.stop, samples.seconds[0], device.calls.len())
        };
        assert_eq!(measure(4e-3, 1e-3), (Stop::Slow, 4e-3, 0));
        assert_eq!(measure(4e-3, 1.0).2, 7);
        assert_eq!(measure(4e-4, 1.0).2, 8, "too short to warm anything up");
    }

    #[test]
    fn the_nearer_to_its_rival_the_more_samples_a_kernel_gets() {
        let samples = |rival: f64| {
            // Never settles, so that only the rival ends it early.
            let mut device = script(|n| if n % 2 == 0 { 3e-3 } else { 4e-3 }, |_| 1.0);
            let settings = Sampling { rival: Some(rival), max_samples: 9, ..Sampling::default() };
            let samples = sample(&settings, &mut device, None);
            (samples.stop, samples.seconds.len())
        };
        assert_eq!(samples(2.5e-3), (Stop::Slow, 1));
        assert_eq!(samples(2.7e-3), (Stop::Slow, 2));
        assert_eq!(samples(2.83e-3), (Stop::Slow, 3));
        assert_eq!(samples(2.9e-3), (Stop::Count, 9));
    }

    #[test]
    fn cold_samples_are_single_runs_after_a_flush() {
        let mut device = script(|_| 2e-6, |_| 1.0);
        let settings = Sampling { cold_caches: true, ..Sampling::default() };
        let samples = sample(&settings, &mut device, None);
        assert_eq!(samples.inner, 1);
        assert_eq!(device.flushes as usize, samples.seconds.len());
    }

    #[test]
    fn a_kernel_below_the_clocks_resolution_is_repeated_many_times() {
        let mut calls = 0;
        let mut device = script(
            move |_| {
                calls += 1;
                if calls < 3 { 0.0 } else { 1e-9 }
            },
            |_| 1.0,
        );
        let samples = sample(&Sampling::default(), &mut device, None);
        assert_eq!(samples.inner, 1 << 20);
        assert!(!samples.seconds.is_empty());
    }

    #[test]
    fn samples_of_a_slow_core_are_rejected() {
        // The fourth sample ends on a slow core; the kernel then waits for a better one.
        let mut device = script(|_| 1e-4, |n| if (4..12).contains(&n) { 50.0 } else { 100.0 });
        let settings = Sampling { warm_up_seconds: 0.0, gate: Some(Gate::default()), ..Sampling::default() };
        let samples = sample(&settings, &mut device, None);
        assert_eq!(samples.rejected, 1);
        assert!(!samples.gate_gave_up);
        assert_eq!(samples.probes.len(), samples.seconds.len());
        assert!(samples.probes.iter().all(|p| *p == 100.0));
    }

    #[test]
    fn gate_gives_up_when_its_patience_ends_and_says_so() {
        let gate = Gate { reference: Some(100.0), patience_seconds: 1e-3, ..Gate::default() };
        let mut device = script(|_| 1e-4, |_| 60.0);
        let settings = Sampling { gate: Some(gate), ..Sampling::default() };
        let samples = sample(&settings, &mut device, None);
        assert_eq!(samples.stop, Stop::Settled);
        assert!(samples.gate_gave_up);
        assert_eq!(samples.rejected, 0);
        assert!((100..110).contains(&(device.probes - samples.seconds.len() as u32)), "{}", device.probes);
    }

    #[test]
    fn patience_comes_on_top_of_the_budget() {
        // Calm for one probe in twenty, so that the time is spent on waiting.
        let gate = Gate { reference: Some(100.0), patience_seconds: 1.0, ..Gate::default() };
        let mut device =
            script(|n| 1e-4 * (1.0 + 0.1 * (n % 3) as f64), |n| if n % 20 < 2 { 100.0 } else { 60.0 });
        let settings =
            Sampling { warm_up_seconds: 0.0, gate: Some(gate), budget_seconds: 2e-3, ..Sampling::default() };
        let samples = sample(&settings, &mut device, None);
        assert!(!samples.gate_gave_up);
        assert!(samples.seconds.len() >= 7, "{}", samples.seconds.len());
        assert!(samples.probes.iter().all(|p| *p == 100.0));
    }

    #[test]
    fn times_on_a_slow_core_are_those_of_a_fast_one() {
        // A neighbour halves the probe's speed and makes the kernel slower by a known power of it, all the time or in turns.
        let slowed = |always: bool| {
            let is_slow = move |n: u32| always || (n / 8).is_multiple_of(2);
            let mut run = 0;
            let gate =
                Gate { reference: Some(100.0), patience_seconds: 0.0, sensitivity: 0.65, ..Gate::default() };
            let seconds = move |_| {
                run += 1;
                // The warm-up is the first run; then probes and runs alternate.
                if run > 1 && is_slow(run - 1) { 1e-4 / 0.5f64.powf(0.65) } else { 1e-4 }
            };
            let mut device = script(seconds, move |n| if is_slow(n) { 50.0 } else { 100.0 });
            let settings = Sampling { warm_up_seconds: 0.0, gate: Some(gate), ..Sampling::default() };
            sample(&settings, &mut device, None)
        };
        let samples = slowed(true);
        assert!(
            samples.min() > 1.5e-4 && samples.at_full_speed.iter().all(|t| close(*t, 1e-4)),
            "{samples:?}"
        );
        assert_eq!(samples.stop, Stop::Settled);
        let mixed = slowed(false);
        assert_eq!(mixed.at_full_speed.len(), mixed.seconds.len());
        let off = (quantile(mixed.best_guess(), 0.5) / 1e-4 - 1.0).abs();
        assert!(off < 0.05, "{mixed:?}");
    }

    #[test]
    fn samples_before_a_better_reference_are_dropped() {
        let mut device = script(|_| 1e-4, |n| if n < 4 { 60.0 } else { 100.0 });
        let settings = Sampling { warm_up_seconds: 0.0, gate: Some(Gate::default()), ..Sampling::default() };
        let samples = sample(&settings, &mut device, None);
        assert!(samples.rejected >= 3 && samples.probes.iter().all(|p| *p == 100.0), "{samples:?}");
        assert_eq!(samples.probes.len(), samples.seconds.len());
    }

    #[test]
    fn endless_settings_survive_the_wire() {
        let gate = Gate { reference: Some(f64::INFINITY), ..Gate::default() };
        let settings = Sampling {
            budget_seconds: f64::INFINITY,
            target_spread: f64::NAN,
            gate: Some(gate),
            slower_than: Some(f64::INFINITY),
            rival: Some(f64::INFINITY),
            ..Sampling::default()
        };
        let sent = settings.finite();
        let received: Sampling = serde_json::from_str(&serde_json::to_string(&sent).unwrap()).unwrap();
        assert_eq!(received, sent);
        assert!(received.budget_seconds > 1e9 && received.slower_than.is_none() && received.rival.is_none());
        assert_eq!((received.target_spread, received.gate.unwrap().reference), (0.0, None));
        assert_eq!(Sampling::default().finite(), Sampling::default());
    }

    #[test]
    fn quantiles_interpolate() {
        let samples = Samples { seconds: vec![4.0, 1.0, 3.0, 2.0], ..Samples::none(1) };
        assert_eq!(samples.median(), 2.5);
        assert_eq!(samples.low_quantile(), 1.75);
        assert_eq!((samples.quantile(0.0), samples.quantile(1.0)), (1.0, 4.0));
        assert_eq!(samples.spread(), 1.5 / 2.5);
    }
}
