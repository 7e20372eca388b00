//! A run shown in a browser while it goes on: events of the tuner to what a page shows.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use talweg_db::TargetKey;
use talweg_report::{Collector, Dashboard, DashboardError, Measured, RunFacts, TaskFacts};
use talweg_tuner::records::{environment, task_key};
use talweg_tuner::{Event, TaskSpec, TuneOptions};

use super::Failure;
use super::db::now;
use super::report::roofs;

/// The port that is tried first when none is given.
const PORT: u16 = 7357;
/// The run, as the collector numbers it.
const RUN: usize = 0;

/// A dashboard that follows a run, and ends with it.
pub struct Watching {
    dashboard: Dashboard,
    started: Instant,
    /// The collector's numbers of the tuner's tasks.
    tasks: Vec<usize>,
}

impl Watching {
    /// Serves at a place such as `127.0.0.1:8080`, `8080` or nothing, and prints where.
    pub fn start(
        place: &str,
        options: &TuneOptions,
        tasks: &[TaskSpec],
        is_here: bool,
    ) -> Result<Watching, Failure> {
        let (address, is_given) = parse(place).ok_or_else(|| {
            Failure::input(format!(
                "--dashboard={place}: give an address and a port such as 127.0.0.1:8080, or a port alone"
            ))
        })?;
        let collect = || {
            let target = TargetKey::new(options.target.fingerprint());
            let mut collector = Collector::new(&target, options.threads as u32, now());
            let run = collector.add_run(RunFacts {
                id: 0,
                strategy: options.strategy.name().into(),
                seed: options.seed,
                command: options.command.clone(),
                version: env!("CARGO_PKG_VERSION").into(),
                started: now().saturating_sub(options.elapsed() as u64),
                environment: environment(options, None),
            });
            let fact = |t: &TaskSpec| TaskFacts {
                key: task_key(&t.dag),
                name: Some(t.name.clone()),
                weight: t.weight,
                flops: Some(t.flops),
            };
            let numbers: Vec<usize> = tasks.iter().map(|t| collector.add_task(run, fact(t))).collect();
            collector.set_roofs(is_here.then(|| roofs(options.threads)));
            let live = collector.live();
            live.budget = options.budget.map(|b| b.as_secs_f64());
            live.wanted = options.trials;
            live.elapsed = options.elapsed();
            (collector, numbers)
        };
        let (collector, numbers) = collect();
        let dashboard = match Dashboard::start(address, collector) {
            Err(DashboardError::Listen { .. }) if !is_given => {
                let any = SocketAddr::new(address.ip(), 0);
                Dashboard::start(any, collect().0).map_err(Failure::work)?
            }
            other => other.map_err(Failure::input)?,
        };
        eprintln!("dashboard: {}", dashboard.url());
        if !address.ip().is_loopback() {
            eprintln!("dashboard: everybody who can reach {} can see it", dashboard.address());
        }
        Ok(Watching { dashboard, started: options.started, tasks: numbers })
    }

    /// Shows an event. Returns at once, whoever looks.
    pub fn show(&self, event: Event) {
        let elapsed = self.started.elapsed().as_secs_f64();
        let number = |task: usize| self.tasks.get(task).copied();
        let current = task_of(&event).and_then(number);
        self.dashboard.tell(move |collector| {
            let live = collector.live();
            live.elapsed = elapsed;
            live.current = current.or(live.current);
            apply(collector, current, elapsed, &event);
        });
    }
}

/// The task an event is about.
fn task_of(event: &Event) -> Option<usize> {
    match event {
        Event::TaskStarted { task, .. }
        | Event::Asked { task, .. }
        | Event::SampleMeasured { task, .. }
        | Event::BestStored { task, .. }
        | Event::Verified { task, .. } => Some(*task),
        _ => None,
    }
}

fn apply(collector: &mut Collector, task: Option<usize>, elapsed: f64, event: &Event) {
    match (event, task) {
        (Event::TaskStarted { default_seconds, best_seconds, .. }, Some(task)) => {
            collector.default_measured(RUN, task, elapsed, *default_seconds, "");
            collector.known(RUN, task, elapsed, *best_seconds);
        }
        (Event::SampleMeasured { seconds, cause, predicted, trace, at, .. }, Some(task)) => {
            let cause = cause.as_deref().unwrap_or("unknown");
            let outcome = seconds.ok_or((cause, None));
            let (at, predicted) = (*at, *predicted);
            collector.measured(&Measured { run: RUN, task, at, outcome, predicted, trace });
        }
        (Event::ErrorGrouped { cause, text, .. }, _) => collector.explain(cause, text),
        (
            Event::BestStored { seconds, default_seconds, .. }
            | Event::Verified { seconds, default_seconds, .. },
            Some(task),
        ) => collector.proven(task, *seconds, *default_seconds),
        (Event::Forecast { latency, gain, .. }, _) => {
            collector.live().to_gain = Some(gain / latency.max(f64::MIN_POSITIVE));
        }
        (Event::Finished { reason, .. }, _) => collector.live().ended = Some(reason.to_string()),
        _ => {}
    }
}

/// Where to listen, and whether the user said so: on this machine only unless an address is given.
fn parse(place: &str) -> Option<(SocketAddr, bool)> {
    let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    if place.is_empty() {
        return Some((local(PORT), false));
    }
    if let Ok(port) = place.parse::<u16>() {
        return Some((local(port), true));
    }
    if let Ok(address) = place.parse::<IpAddr>() {
        return Some((SocketAddr::new(address, PORT), true));
    }
    let named = place.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    named.map(local).or_else(|| place.parse().ok()).map(|address| (address, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_loopback_unless_said() {
        let of = |place: &str| parse(place).map(|(address, given)| (address.to_string(), given));
        assert_eq!(of(""), Some(("127.0.0.1:7357".into(), false)));
        assert_eq!(of("8080"), Some(("127.0.0.1:8080".into(), true)));
        assert_eq!(of("localhost:81"), Some(("127.0.0.1:81".into(), true)));
        assert_eq!(of("0.0.0.0:8080"), Some(("0.0.0.0:8080".into(), true)));
        assert_eq!(of("[::1]:9"), Some(("[::1]:9".into(), true)));
        assert_eq!(of("10.0.0.1"), Some(("10.0.0.1:7357".into(), true)));
        for bad in ["matmul:m=1", "host:80", "1.2.3.4:99999", "x"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
