//! Reports and dashboards as a user calls them.

mod tool;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tool::here::{command, run, succeeds};

const TINY: &str = "matmul:m=17,n=33,k=9";

/// Refused as bad input, with a text that says this; returns nothing on standard output.
fn refused(arguments: &[&str], expected: &str) {
    let output = run(arguments);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {err}");
    assert!(err.contains(expected), "{arguments:?}: {err}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn runs_become_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let (db, page) = (dir.path().join("t.db"), dir.path().join("out.html"));
    let (db, page) = (text(&db), text(&page));
    succeeds(&["tune", TINY, "--trials", "6", "--batch", "3", "--db", db]);
    succeeds(&["tune", TINY, "--trials", "3", "--strategy", "random", "--fresh", "--db", db]);
    let runs = succeeds(&["db", "runs", "--db", db]);
    assert_eq!(runs.lines().count(), 2, "{runs}");
    assert!(runs.contains("felix") && runs.contains("--strategy random"), "{runs}");

    let said = succeeds(&["report", "--db", db, "-o", page]);
    assert!(said.contains("2 runs, 1 tasks"), "{said}");
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n") && html.contains(TINY));

    let one: Value =
        serde_json::from_str(&succeeds(&["report", "--db", db, "--run", "2", "--json"])).unwrap();
    assert_eq!(one["runs"].as_array().unwrap().len(), 1);
    assert_eq!((&one["runs"][0]["strategy"], &one["runs"][0]["trials"]), (&"random".into(), &3.into()));
    assert_eq!((&one["tasks"][0]["name"], &one["tasks"][0]["proven"]), (&TINY.into(), &true.into()));
    assert_eq!(one["tasks"][0]["flops"].as_f64(), Some(2.0 * 17.0 * 33.0 * 9.0));
    assert!(one["roofs"]["peak_gflops"].as_f64().unwrap() > 0.0);
    let points = one["tasks"][0]["curves"][0]["points"].as_array().unwrap();
    let moments: Vec<f64> = points.iter().map(|p| p[0].as_f64().unwrap()).collect();
    assert!(moments[0] > 0.0 && moments.is_sorted(), "{moments:?}");
}

#[test]
fn what_cannot_be_reported_is_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| text(&dir.path().join(name)).to_string();
    let (db, page, peers) = (at("t.db"), at("out.html"), at("peers.json"));
    refused(&["report", "--db", &db, "-o", &page], "no such file");
    talweg_db::Database::open(&db).unwrap();
    refused(&["report", "--db", &db, "-o", &page], "no run has measured anything yet");
    refused(&["report", "--db", &db, "--run", "7", "-o", &page], "there is no run 7");
    succeeds(&["tune", TINY, "--trials", "2", "--db", &db]);
    std::fs::write(&peers, "[{\"name\": \"x\", \"us\": 1, \"task\": \"conv\"}]").unwrap();
    refused(&["report", "--db", &db, "--peers", &peers, "-o", &page], "no run of the report has");
    refused(&["report", "--db", &db, "--peers", &at("missing"), "-o", &page], "missing");
    assert!(!Path::new(&page).exists());
    refused(&["report", "--db", &db, "-o", &at("no/folder.html")], "no/folder.html");
    refused(&["tune", TINY, "--simulated", "--dashboard=nowhere"], "give an address and a port");
}

/// The first bytes of the answer to a request.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{request}\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.take(900).read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_run_can_be_watched_and_the_dashboard_ends_with_it() {
    let arguments = ["tune", TINY, "--simulated", "--budget", "6s", "--dashboard=0"];
    let mut tuning =
        command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut lines = BufReader::new(tuning.stderr.take().unwrap()).lines();
    let line = lines.by_ref().map(Result::unwrap).find(|l| l.starts_with("dashboard: ")).expect("an address");
    let address = line.trim_start_matches("dashboard: http://").trim_end_matches('/').to_string();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    assert!(ask(&address, "GET / HTTP/1.1").starts_with("HTTP/1.1 200 OK"));
    assert!(ask(&address, "POST / HTTP/1.1").starts_with("HTTP/1.1 405 "));
    assert!(ask(&address, "GET /events HTTP/1.1").contains("text/event-stream"));
    assert!(ask(&address, "GET / HTTP/1.1\r\nHost: evil.example").starts_with("HTTP/1.1 400 "));
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(tuning.wait().unwrap().success(), "{rest:?}");
    assert!(TcpStream::connect(&address).is_err());
}
