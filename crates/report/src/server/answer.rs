//! What a connection is answered.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Sender, sync_channel};
use std::time::Duration;

use super::hub::{Message, QUEUE};
use super::request::{Refusal, Request, parse, read_head};

/// A request must be complete after this time.
const READING: Duration = Duration::from_secs(5);
/// A reader that takes nothing for so long is given up.
const WRITING: Duration = Duration::from_secs(10);

/// Nothing but what is in the page may be loaded, and only this server may be asked.
const SAFE: &str = "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
    img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
    X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
    Cache-Control: no-store\r\n";

/// Answers one request and closes the connection.
pub(super) fn serve(mut stream: TcpStream, address: SocketAddr, news: &Sender<Message>) -> io::Result<()> {
    stream.set_read_timeout(Some(READING))?;
    stream.set_write_timeout(Some(WRITING))?;
    stream.set_nodelay(true)?;
    let Some(head) = read_head(&mut stream, READING)? else { return Ok(()) };
    match parse(&head, address) {
        Ok(Request::Page) => send_page(&mut stream, news),
        Ok(Request::Events) => send_events(&mut stream, news),
        Err(refusal) => refuse(&mut stream, refusal),
    }
}

fn refuse(stream: &mut TcpStream, Refusal(status, text): Refusal) -> io::Result<()> {
    let name = match status {
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let allow = if status == 405 { "Allow: GET\r\n" } else { "" };
    let length = text.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status} {name}\r\n{allow}{SAFE}Content-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{text}\n"
    );
    stream.write_all(answer.as_bytes())
}

fn send_page(stream: &mut TcpStream, news: &Sender<Message>) -> io::Result<()> {
    let (reply, page) = sync_channel(1);
    let ended = Refusal(503, "the run has ended");
    if news.send(Message::Page(reply)).is_err() {
        return refuse(stream, ended);
    }
    let Ok(page) = page.recv() else { return refuse(stream, ended) };
    let head = format!(
        "HTTP/1.1 200 OK\r\n{SAFE}Content-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        page.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(page.as_bytes())
}

fn send_events(stream: &mut TcpStream, news: &Sender<Message>) -> io::Result<()> {
    let (reader, events) = sync_channel(QUEUE);
    if news.send(Message::Reader(reader)).is_err() {
        return refuse(stream, Refusal(503, "the run has ended"));
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\n{SAFE}Content-Type: text/event-stream\r\nConnection: close\r\n\r\nretry: 1000\n\n"
    );
    stream.write_all(head.as_bytes())?;
    for event in events {
        stream.write_all(event.as_bytes())?;
    }
    Ok(())
}
