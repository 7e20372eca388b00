//! Times as they would be at one distance between the threads.
//!
//! A kernel on several threads takes another time when they are farther apart, which changes during a run where a host moves
//! the processors of a virtual machine. Then a candidate would win for the moment it was measured in. So all times of a run
//! count as at the distance its first kernel was timed at: what was measured at another is multiplied by what the task's
//! fastest kernel takes at the first over what it takes there. That kernel is timed again whenever its task is measured at a
//! distance where it has not been.

use std::collections::BTreeMap;

use talweg_measure::Distances;

use crate::runner::Timing;

/// A kernel of a task, and what it took at each distance.
#[derive(Clone, Debug)]
pub struct Yardstick<K> {
    /// The kernel.
    pub kernel: K,
    /// Its trace text.
    pub trace: String,
    seconds: BTreeMap<usize, f64>,
}

impl<K> Yardstick<K> {
    /// A kernel that was timed.
    pub fn new(kernel: K, trace: String, timing: &Timing, places: &mut Places) -> Yardstick<K> {
        let seconds = places.see(timing.distance).map(|at| (at, timing.seconds));
        Yardstick { kernel, trace, seconds: seconds.into_iter().collect() }
    }

    /// Whether it is to be timed again: it is not known what it takes at the present distance.
    pub fn is_missing(&self, places: &Places) -> bool {
        places.now.is_some_and(|now| !self.seconds.contains_key(&now))
    }

    /// It was timed again. Its seconds at the usual distance, if that is where and the first time.
    pub fn add(&mut self, timing: &Timing, places: &mut Places) -> Option<f64> {
        let at = places.see(timing.distance)?;
        let is_new = self.seconds.insert(at, timing.seconds).is_none();
        let usual = *self.seconds.get(&places.usual?)?;
        for (at, seconds) in &self.seconds {
            places.factors.entry(*at).or_default().push(usual / seconds);
        }
        (is_new && Some(at) == places.usual).then_some(usual)
    }
}

/// The distances of a run.
#[derive(Clone, Debug, Default)]
pub struct Places {
    seen: Distances,
    /// The one that times count as.
    usual: Option<usize>,
    /// The last one.
    now: Option<usize>,
    /// For each distance what yardsticks said of it.
    factors: BTreeMap<usize, Vec<f64>>,
}

impl Places {
    /// The number of a distance, which is the present one from now on.
    fn see(&mut self, distance: Option<f64>) -> Option<usize> {
        let at = self.seen.number(distance?);
        self.usual = self.usual.or(Some(at));
        self.now = Some(at);
        self.now
    }

    /// What times at a distance are multiplied by: as the task's yardstick says, or as those of other tasks do.
    fn factor<K>(&self, at: Option<usize>, yardstick: &Yardstick<K>) -> f64 {
        let (Some(at), Some(usual)) = (at, self.usual) else { return 1.0 };
        match (yardstick.seconds.get(&usual), yardstick.seconds.get(&at)) {
            _ if at == usual => 1.0,
            (Some(there), Some(here)) => there / here,
            _ => self.factors.get(&at).map_or(1.0, |all| {
                (all.iter().map(|factor| factor.ln()).sum::<f64>() / all.len() as f64).exp()
            }),
        }
    }

    /// The time as it would be at the usual distance.
    pub fn usual<K>(&mut self, mut timing: Timing, yardstick: &Yardstick<K>) -> Timing {
        let at = self.see(timing.distance);
        let factor = self.factor(at, yardstick);
        timing.seconds *= factor;
        timing.samples.seconds.iter_mut().for_each(|seconds| *seconds *= factor);
        timing
    }

    /// What a kernel would take at the present distance.
    pub fn present<K>(&self, seconds: f64, yardstick: &Yardstick<K>) -> f64 {
        seconds / self.factor(self.now, yardstick)
    }
}

#[cfg(test)]
mod tests {
    use talweg_db::Samples;

    use super::*;

    const FAR: Option<f64> = Some(185e-9);
    const NEAR: Option<f64> = Some(24e-9);

    fn timing(seconds: f64, distance: Option<f64>) -> Timing {
        let samples = Samples { seconds: vec![seconds; 2], ..Samples::default() };
        Timing { seconds, measured: seconds, samples, error: None, distance }
    }

    #[test]
    fn times_count_as_at_the_first_distance() {
        let mut places = Places::default();
        let mut own = Yardstick::new((), "own".into(), &timing(12.0, FAR), &mut places);
        assert!(!own.is_missing(&places));
        // Nobody knows yet what being near does.
        assert_eq!(places.usual(timing(9.0, NEAR), &own).seconds, 9.0);
        assert!(own.is_missing(&places));
        assert_eq!(own.add(&timing(10.0, NEAR), &mut places), None);
        let found = places.usual(timing(9.0, NEAR), &own);
        assert!((found.seconds - 10.8).abs() < 1e-9 && found.samples.seconds == [found.seconds; 2]);
        assert_eq!(found.measured, 9.0);
        assert!((places.present(12.0, &own) - 10.0).abs() < 1e-9);
        assert_eq!(places.usual(timing(11.0, FAR), &own).seconds, 11.0);
        assert_eq!(places.usual(timing(11.0, None), &own).seconds, 11.0);
        // Another task's kernel was only near: it goes by what is known of the first.
        let mut other = Yardstick::new((), "other".into(), &timing(5.0, NEAR), &mut places);
        assert!((places.usual(timing(4.0, NEAR), &other).seconds - 4.8).abs() < 1e-9);
        assert_eq!(other.add(&timing(7.0, FAR), &mut places), Some(7.0));
        assert!((places.usual(timing(4.0, NEAR), &other).seconds - 5.6).abs() < 1e-9);
    }
}
