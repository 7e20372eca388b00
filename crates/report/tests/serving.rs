//! The page served live: who is answered, what readers are told, and that nobody slows the one who tells.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use common::{target, task, trace};
use serde_json::Value;
use talweg_report::{Collector, Dashboard, Measured, RunFacts, TaskFacts};

fn dashboard() -> Dashboard {
    let mut collector = Collector::new(&target(), 1, 1_000);
    let run = collector.add_run(RunFacts { strategy: "ansor".into(), ..RunFacts::default() });
    collector.add_task(run, TaskFacts { key: task(64), name: None, weight: 1.0, flops: None });
    collector.live().budget = Some(60.0);
    Dashboard::start("127.0.0.1:0".parse().unwrap(), collector).unwrap()
}

/// Tells of one good sample.
fn sample(dashboard: &Dashboard, seconds: f64) {
    dashboard.tell(move |collector| {
        let trace = trace([1, 2, 3, 4]);
        let (run, task, at, predicted) = (0, 0, 1.0, Some(1.0));
        collector.measured(&Measured { run, task, at, outcome: Ok(seconds), predicted, trace: &trace });
    });
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// The whole answer to a request.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(dashboard: &Dashboard, path: &str) -> String {
    let address = dashboard.address();
    ask(address, format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
}

/// A reader of the events.
struct Reader(BufReader<TcpStream>);

impl Reader {
    fn new(dashboard: &Dashboard) -> Reader {
        let address = dashboard.address();
        let mut stream = connect(address);
        write!(stream, "GET /events HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        Reader(BufReader::new(stream))
    }

    /// The next event and its data; `None` at the end.
    fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.trim().into();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }
}

#[test]
fn the_page_holds_what_is_known() {
    let dashboard = dashboard();
    sample(&dashboard, 5e-4);
    let answer = get(&dashboard, "/");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{}", &answer[..200]);
    assert!(answer.contains("Content-Security-Policy: default-src 'none'"));
    assert!(answer.contains("\"best_us\":500.0") && answer.ends_with("</html>\n"));
}

#[test]
fn bad_requests_are_refused_and_change_nothing() {
    let dashboard = dashboard();
    let address = dashboard.address();
    let host = format!("Host: {address}");
    for (request, status) in [
        (format!("POST / HTTP/1.1\r\n{host}\r\nContent-Length: 3\r\n\r\nabc"), 405),
        (format!("GET /etc/passwd HTTP/1.1\r\n{host}\r\n\r\n"), 404),
        (format!("GET /../ HTTP/1.1\r\n{host}\r\n\r\n"), 404),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_string(), 403),
        ("\r\n\r\n".to_string(), 400),
        (format!("GET / HTTP/1.1\r\n{host}\r\nX: {}\r\n\r\n", "y".repeat(20_000)), 431),
    ] {
        let answer = ask(address, request.as_bytes());
        // A peer that is refused before it has sent everything may see the connection reset.
        let is_refused =
            answer.starts_with(&format!("HTTP/1.1 {status} ")) || (status == 431 && answer.is_empty());
        assert!(is_refused, "{status}: {answer}");
    }
    ask(address, b"");
    drop(connect(address));
    assert!(get(&dashboard, "/").starts_with("HTTP/1.1 200"));
}

#[test]
fn several_readers_get_everything_and_then_the_news() {
    let dashboard = dashboard();
    sample(&dashboard, 5e-4);
    let mut readers = [Reader::new(&dashboard), Reader::new(&dashboard), Reader::new(&dashboard)];
    for reader in &mut readers {
        let (name, update) = reader.next().unwrap();
        assert_eq!((name.as_str(), &update["whole"]), ("update", &Value::Bool(true)));
        assert_eq!(update["report"]["measured"], 1);
    }
    sample(&dashboard, 4e-4);
    for reader in &mut readers {
        let (_, update) = reader.next().unwrap();
        assert_eq!(update["whole"], Value::Bool(false));
        assert_eq!(update["report"]["samples"].as_array().unwrap().len(), 1);
        assert_eq!(update["report"]["tasks"][0]["best_us"], 400.0);
    }
    drop(dashboard);
    for reader in &mut readers {
        let (name, update) = reader.next().unwrap();
        assert_eq!((name.as_str(), &update["whole"]), ("end", &Value::Bool(true)));
        assert_eq!(update["report"]["live"]["ended"], "the run is over");
        assert!(reader.next().is_none());
    }
}

#[test]
fn a_reader_that_does_not_read_holds_nobody_up() {
    let dashboard = dashboard();
    let idle = Reader::new(&dashboard);
    let mut awake = Reader::new(&dashboard);
    awake.next().unwrap();
    // Far more than the buffers of a connection and its queue hold.
    for round in 0..40u32 {
        dashboard.tell(move |collector| {
            let (cause, text) = (format!("cause {round}"), "long text ".repeat(300));
            let outcome = Err((cause.as_str(), Some(text.as_str())));
            let trace = trace([1, 2, 3, 4]);
            collector.measured(&Measured {
                run: 0,
                task: 0,
                at: 1.0,
                outcome,
                predicted: None,
                trace: &trace,
            });
        });
        for _ in 0..200 {
            sample(&dashboard, 5e-4);
        }
    }
    let mut known = 0;
    let begin = Instant::now();
    while known < 8000 && begin.elapsed() < Duration::from_secs(60) {
        let (_, update) = awake.next().expect("the reader that reads stays connected");
        known = update["report"]["measured"].as_u64().unwrap();
    }
    assert_eq!(known, 8000);
    drop(dashboard);
    drop(idle);
}

#[test]
fn an_address_that_is_taken_is_an_error_that_says_so() {
    let first = dashboard();
    let collector = Collector::new(&target(), 1, 0);
    let error = Dashboard::start(first.address(), collector).err().unwrap().to_string();
    assert!(error.contains("cannot serve a dashboard") && error.contains("another address"), "{error}");
}
