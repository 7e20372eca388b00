//! The page served while tuning, with server-sent events.
//!
//! Three kinds of threads: one accepts connections, one for each connection reads its request and writes the answer, and
//! the hub owns the [`Collector`] and tells all readers what is new. The tuner only puts changes into an endless queue, and
//! a reader that does not keep up loses its connection; its browser connects again and gets everything. So nobody who
//! looks can slow down what is measured.
//!
//! The server is written on the standard library: it answers two addresses to a handful of readers, and everything it
//! would use of a larger one is in the three files below this one.

mod answer;
mod hub;
mod request;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::collector::Collector;
use hub::{Hub, Message};

/// Connections that are served at the same time.
const MOST_CONNECTIONS: usize = 32;
/// How long the end waits for readers to take the last news.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why there is no dashboard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DashboardError {
    /// Nobody can listen there.
    #[error(
        "cannot serve a dashboard at {address}: {source}; give another address or port, or 0 for any free port"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start the dashboard: {source}; check the limits on threads")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
}

/// A page that shows what happens while it happens. Ends with this value.
pub struct Dashboard {
    address: SocketAddr,
    news: Sender<Message>,
    stop: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    hub: Option<JoinHandle<()>>,
    acceptor: Option<JoinHandle<()>>,
}

impl Dashboard {
    /// Serves what a collector has and what it will be told. On a loopback address only readers that ask for it by a
    /// loopback name are answered, so that no page of another site can pass as this one by its name service.
    pub fn start(address: SocketAddr, collector: Collector) -> Result<Dashboard, DashboardError> {
        let listen = |source| DashboardError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (news, inbox) = channel();
        let thread = |source| DashboardError::Thread { source };
        let hub = std::thread::Builder::new()
            .name("dashboard-hub".into())
            .spawn(move || Hub::new(collector).run(&inbox))
            .map_err(thread)?;
        let stop = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let acceptor =
            Acceptor { address, news: news.clone(), stop: stop.clone(), connections: connections.clone() };
        let acceptor = std::thread::Builder::new()
            .name("dashboard".into())
            .spawn(move || acceptor.run(&listener))
            .map_err(thread)?;
        Ok(Dashboard { address, news, stop, connections, hub: Some(hub), acceptor: Some(acceptor) })
    }

    /// Where it is served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for a browser.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Changes what is known, at once for the caller: it never waits for a reader.
    pub fn tell(&self, change: impl FnOnce(&mut Collector) + Send + 'static) {
        // Without a hub there is nobody to tell.
        let _ = self.news.send(Message::Change(Box::new(change)));
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.news.send(Message::End);
        // Waiting for connections ends with the next one.
        let _ = TcpStream::connect_timeout(&reachable(self.address), Duration::from_millis(500));
        let threads = [self.hub.take(), self.acceptor.take()];
        threads.into_iter().flatten().for_each(|thread| {
            let _ = thread.join();
        });
        let begin = Instant::now();
        while self.connections.load(Ordering::Relaxed) > 0 && begin.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.end();
    }
}

/// An address to connect to what listens at this one.
fn reachable(address: SocketAddr) -> SocketAddr {
    let loopback = match address {
        SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    if address.ip().is_unspecified() { SocketAddr::new(loopback, address.port()) } else { address }
}

/// Accepts connections until the end.
struct Acceptor {
    address: SocketAddr,
    news: Sender<Message>,
    stop: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
}

/// One of the connections; counts as long as it lives.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(connections: &Arc<AtomicUsize>) -> Option<Place> {
        let taken = connections.fetch_add(1, Ordering::Relaxed);
        let place = Place(connections.clone());
        (taken < MOST_CONNECTIONS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Acceptor {
    fn run(&self, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            // A connection that failed before it began is somebody else's problem; one too many is closed.
            let (Ok(stream), Some(place)) = (stream, Place::take(&self.connections)) else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            let (news, address) = (self.news.clone(), self.address);
            let serve = move || {
                let _place = place;
                // A reader that went away has nothing to be told.
                let _ = answer::serve(stream, address, &news);
            };
            let _ = std::thread::Builder::new().name("dashboard-reader".into()).spawn(serve);
        }
    }
}
