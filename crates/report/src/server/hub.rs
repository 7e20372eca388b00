//! The hub: owns what is known, and tells all readers what is new.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::{Duration, Instant};

use crate::collector::Collector;
use crate::page::page;
use crate::report::Update;

/// Events that a reader may be behind before it loses its connection.
pub(super) const QUEUE: usize = 16;
/// News are not sent more often than this.
const INTERVAL: Duration = Duration::from_millis(250);
/// Without news, readers are told that somebody is still here.
const SILENCE: Duration = Duration::from_secs(15);

/// What the hub is told.
pub(super) enum Message {
    /// Something was measured.
    Change(Box<dyn FnOnce(&mut Collector) + Send>),
    /// Somebody wants the page.
    Page(SyncSender<String>),
    /// Somebody wants to hear of everything.
    Reader(SyncSender<Arc<str>>),
    /// Nothing more will come.
    End,
}

/// The hub.
pub(super) struct Hub {
    collector: Collector,
    readers: Vec<SyncSender<Arc<str>>>,
    /// Good samples that the readers have been told.
    told: usize,
    has_news: bool,
    last: Instant,
}

impl Hub {
    pub(super) fn new(collector: Collector) -> Hub {
        Hub { collector, readers: Vec::new(), told: 0, has_news: false, last: Instant::now() }
    }

    /// Works until the end is told, or nobody is left to tell anything.
    pub(super) fn run(mut self, inbox: &Receiver<Message>) {
        loop {
            let patience = if self.has_news && !self.readers.is_empty() { INTERVAL } else { SILENCE };
            match inbox.recv_timeout(patience.saturating_sub(self.last.elapsed())) {
                Ok(Message::Change(change)) => {
                    change(&mut self.collector);
                    self.has_news = true;
                }
                Ok(Message::Page(reply)) => {
                    let _ = reply.try_send(page(&self.collector.report()));
                }
                Ok(Message::Reader(reader)) => self.welcome(reader),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.has_news && self.last.elapsed() >= INTERVAL {
                self.tell();
            } else if self.last.elapsed() >= SILENCE {
                self.send(&Arc::from(": still here\n\n"));
            }
        }
        let live = self.collector.live();
        live.ended.get_or_insert_with(|| "the run is over".into());
        let whole = Update { report: self.collector.report(), whole: true };
        self.send(&event("end", &whole));
    }

    /// A new reader gets everything. The others are told the news first, so that all know the same.
    fn welcome(&mut self, reader: SyncSender<Arc<str>>) {
        if self.has_news {
            self.tell();
        }
        let whole = Update { report: self.collector.report(), whole: true };
        if reader.try_send(event("update", &whole)).is_ok() {
            self.readers.push(reader);
        }
        self.told = self.collector.good();
    }

    fn tell(&mut self) {
        self.has_news = false;
        if self.readers.is_empty() {
            self.last = Instant::now();
            return;
        }
        let update = self.collector.update(self.told);
        self.told = self.collector.good();
        self.send(&event("update", &update));
    }

    /// Sends to all readers; those that are too far behind are let go.
    fn send(&mut self, event: &Arc<str>) {
        self.last = Instant::now();
        self.readers.retain(|reader| match reader.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        });
    }
}

/// One event: JSON has no line ends outside of strings, and none inside of them.
fn event(name: &str, update: &Update) -> Arc<str> {
    let data = serde_json::to_string(update).unwrap_or_else(|_| "null".into());
    Arc::from(format!("event: {name}\ndata: {data}\n\n"))
}
