//! The head of a request: which page is asked for, and by which name of this machine.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The longest head that is read.
const MOST_BYTES: usize = 8192;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// The page.
    Page,
    /// The stream of events.
    Events,
}

/// Why a request is not answered, as a status and a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) u16, pub(super) &'static str);

/// Reads a head: everything up to an empty line. `None` if the connection or the patience ends before it.
pub(super) fn read_head(stream: &mut impl Read, patience: Duration) -> io::Result<Option<Vec<u8>>> {
    let begin = Instant::now();
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while head.len() <= MOST_BYTES {
        if begin.elapsed() > patience {
            return Ok(None);
        }
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(None);
        }
        head.extend_from_slice(&buffer[..count]);
        if head.windows(4).any(|w| w == b"\r\n\r\n") {
            return Ok(Some(head));
        }
    }
    Ok(Some(head))
}

/// What a head asks for at this address.
pub(super) fn parse(head: &[u8], address: SocketAddr) -> Result<Request, Refusal> {
    let bad = Refusal(400, "this is not a request that a browser sends");
    let end = head.windows(4).position(|w| w == b"\r\n\r\n");
    let end = end.ok_or(Refusal(431, "the head of the request is too long"))?;
    let text = std::str::from_utf8(&head[..end]).map_err(|_| bad)?;
    let mut lines = text.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path), Some(version), None) =
        (first.next(), first.next(), first.next(), first.next())
    else {
        return Err(bad);
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(bad);
    }
    if method != "GET" {
        return Err(Refusal(405, "only GET is answered here"));
    }
    let mut hosts = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(bad);
    }
    if address.ip().is_loopback() && !host.is_some_and(|host| is_loopback_name(host, address.port())) {
        return Err(Refusal(
            403,
            "ask for this page as localhost; other names are refused on a loopback address",
        ));
    }
    match path.split('?').next() {
        Some("/") => Ok(Request::Page),
        Some("/events") => Ok(Request::Events),
        _ => Err(Refusal(404, "there is nothing here; the page is at /")),
    }
}

/// Whether a host header names this machine by a loopback name, with the port that is listened at.
fn is_loopback_name(host: &str, port: u16) -> bool {
    let (name, given) = match host.rsplit_once(':') {
        Some((name, digits)) if !digits.contains(']') => (name, digits.parse::<u16>().ok()),
        _ => (host, Some(80)),
    };
    let is_ours = matches!(name.to_ascii_lowercase().as_str(), "localhost" | "127.0.0.1" | "[::1]");
    is_ours && given == Some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn asked(head: &str) -> Result<Request, u16> {
        parse(head.as_bytes(), "127.0.0.1:7000".parse().unwrap()).map_err(|refusal| refusal.0)
    }

    #[test]
    fn pages_and_events_are_found() {
        assert_eq!(asked("GET / HTTP/1.1\r\nHost: localhost:7000\r\n\r\n"), Ok(Request::Page));
        assert_eq!(asked("GET /?x=1 HTTP/1.1\r\nhost:127.0.0.1:7000\r\n\r\n"), Ok(Request::Page));
        assert_eq!(asked("GET /events HTTP/1.1\r\nA: b\r\nHOST: [::1]:7000\r\n\r\n"), Ok(Request::Events));
        assert_eq!(asked("GET /other HTTP/1.1\r\nHost: localhost:7000\r\n\r\n"), Err(404));
    }

    #[test]
    fn other_methods_and_nonsense_are_refused() {
        for method in ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "get"] {
            assert_eq!(asked(&format!("{method} / HTTP/1.1\r\nHost: localhost:7000\r\n\r\n")), Err(405));
        }
        for bad in ["", "GET", "GET /", "GET / HTTP/2", "GET  / HTTP/1.1", "\u{1}\u{2}", "GET / x HTTP/1.1"] {
            assert_eq!(asked(&format!("{bad}\r\n\r\n")), Err(400), "{bad:?}");
        }
        assert_eq!(asked("GET / HTTP/1.1\r\nHost: localhost:7000\r\n"), Err(431));
        assert_eq!(parse(b"GET /\xff HTTP/1.1\r\n\r\n", "127.0.0.1:1".parse().unwrap()).unwrap_err().0, 400);
    }

    #[test]
    fn other_names_are_refused_on_loopback_only() {
        let hosts = [
            "evil.example:7000",
            "localhost",
            "localhost:7001",
            "localhost.evil.example:7000",
            "",
            "127.0.0.1:70000",
        ];
        for host in hosts {
            let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert_eq!(asked(&head), Err(403), "{host}");
            assert_eq!(
                parse(head.as_bytes(), "192.0.2.7:7000".parse().unwrap()),
                Ok(Request::Page),
                "{host}"
            );
        }
        assert_eq!(asked("GET / HTTP/1.1\r\n\r\n"), Err(403));
        let twice = "GET / HTTP/1.1\r\nHost: localhost:7000\r\nHost: evil.example\r\n\r\n";
        assert_eq!(asked(twice), Err(400));
    }

    #[test]
    fn a_head_is_read_in_parts_and_never_without_end() {
        let mut endless = io::repeat(b'x');
        assert!(read_head(&mut endless, LONG).unwrap().unwrap().len() <= MOST_BYTES + 1024);
        let mut short = &b"GET / HT"[..];
        assert_eq!(read_head(&mut short, LONG).unwrap(), None);
        let mut parts = (&b"GET / HTTP/1.1\r\n"[..]).chain(&b"\r\n"[..]);
        assert_eq!(read_head(&mut parts, LONG).unwrap().unwrap(), b"GET / HTTP/1.1\r\n\r\n");
    }
}
