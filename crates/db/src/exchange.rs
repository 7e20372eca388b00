//! Export and import as JSON lines, and merging databases.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Write};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use crate::database::{BestOutcome, Database, Replace, now, put_best, put_run, write};
use crate::digest::hex;
use crate::error::{At, DbError};
use crate::insert::Inserter;
use crate::record::{NewBest, NewRecord, Record, RecordId, Run, RunId, RunInfo, RunTask};
use crate::rows::{self, Keys, SELECT_RECORD, SELECT_RUN};
use crate::run_tasks::{put_task, tasks_of};
use crate::wire::{BestLine, FORMAT, FormatLine, Line, RecordLine, RunLine, RunTaskLine};

/// What an export wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Runs.
    pub runs: u64,
    /// Records.
    pub records: u64,
    /// Winners.
    pub bests: u64,
}

/// What an import or a merge did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// Runs that were new.
    pub runs: u64,
    /// Records that were new.
    pub records: u64,
    /// Records that were there already.
    pub duplicates: u64,
    /// Duplicates that brought the verification their stored equal lacked.
    pub verified: u64,
    /// Winners that were new or faster than the stored one.
    pub bests: u64,
    /// Winners that were not faster than the stored one, which stayed.
    pub bests_kept: u64,
}

impl Database {
    /// Writes everything, as of one moment, as JSON lines.
    pub fn export(&self, mut writer: impl Write) -> Result<Exported, DbError> {
        let mut done = Exported::default();
        let mut put = |line: &Line| {
            serde_json::to_writer(&mut writer, line)
                .map_err(std::io::Error::from)
                .and_then(|()| writer.write_all(b"\n"))
                .map_err(|error| io_error(&self.path, "writing the export", &error))
        };
        put(&Line::TalwegRecords(FormatLine { format: FORMAT }))?;
        self.walk(|item| {
            let line = match item {
                Item::Run(run) => {
                    done.runs += 1;
                    Line::Run(RunLine::of(run))
                }
                Item::RunTask { task, run } => Line::RunTask(RunTaskLine::of(task, run.to_string())),
                Item::Record { record, run } => {
                    done.records += 1;
                    Line::Record(RecordLine::of(*record, run.to_string()))
                }
                Item::Best(best) => {
                    done.bests += 1;
                    Line::Best(BestLine {
                        record: hex(&best.digest),
                        default_seconds: best.default_seconds,
                        ab_ratio: best.ab_ratio,
                        stored: best.stored,
                    })
                }
            };
            put(&line)
        })?;
        writer.flush().map_err(|error| io_error(&self.path, "writing the export", &error))?;
        Ok(done)
    }

    /// Reads what [`Database::export`] wrote, in one transaction: a bad line is an error that names it, and nothing
    /// is imported. Exports may be joined end to end. Other writers wait until the reader has ended.
    pub fn import(&mut self, mut reader: impl BufRead) -> Result<Imported, DbError> {
        let path = &self.path;
        let tx = write(&mut self.conn, path)?;
        let mut importer = Importer::new(&tx, path);
        let mut bytes = Vec::new();
        let mut number = 0;
        let mut begun = false;
        loop {
            bytes.clear();
            let read = reader
                .read_until(b'\n', &mut bytes)
                .map_err(|error| io_error(path, "reading the import", &error))?;
            if read == 0 {
                break;
            }
            number += 1;
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            let bad = |what: String| DbError::BadLine { line: number, what };
            let line: Line =
                serde_json::from_slice(bytes.trim_ascii_end()).map_err(|error| bad(describe(&error)))?;
            match line {
                Line::TalwegRecords(line) if line.format > FORMAT || line.format == 0 => {
                    return Err(bad(format!(
                        "the export has format {}, this talweg reads format {FORMAT}",
                        line.format
                    )));
                }
                Line::TalwegRecords(_) => begun = true,
                _ if !begun => {
                    return Err(bad("an export begins with a line that gives its format".into()));
                }
                line => importer.line(line).map_err(|error| match error {
                    DbError::InvalidValue { what, .. } | DbError::NotAWinner { what, .. } => bad(what),
                    error => error,
                })?,
            }
        }
        if !begun {
            return Err(DbError::BadLine { line: number.max(1), what: "the import is empty".into() });
        }
        let done = importer.done;
        tx.commit().at(path)?;
        Ok(done)
    }
}

impl Database {
    /// Copies everything another database has and this one lacks, in one transaction. Doing it again changes nothing.
    pub fn merge(&mut self, other: &Database) -> Result<Imported, DbError> {
        let path = &self.path;
        let tx = write(&mut self.conn, path)?;
        let mut importer = Importer::new(&tx, path);
        other.walk(|item| match item {
            Item::Run(run) => importer.run(&run.uid, &run.info, run.started),
            Item::RunTask { task, run } => importer.run_task(run, &task),
            Item::Record { record, run } => {
                let run = importer.run_id(run)?;
                importer.record(&record.into_new(run))
            }
            Item::Best(best) => importer.best(&best),
        })?;
        let done = importer.done;
        tx.commit().at(path)?;
        Ok(done)
    }

    /// Visits all runs, then all records, then all winners, as of one moment.
    fn walk(&self, mut visit: impl FnMut(Item<'_>) -> Result<(), DbError>) -> Result<(), DbError> {
        let path = &self.path;
        let snapshot = self.conn.unchecked_transaction().at(path)?;
        let mut uids = HashMap::new();
        for run in rows::collect(&snapshot, path, &format!("{SELECT_RUN} ORDER BY id"), [], rows::run)? {
            let (id, uid) = (run.id, run.uid.clone());
            visit(Item::Run(run))?;
            for task in tasks_of(&snapshot, path, id)? {
                visit(Item::RunTask { task, run: &uid })?;
            }
            uids.insert(id, uid);
        }
        let mut keys = Keys::new();
        let mut query = snapshot.prepare(&format!("{SELECT_RECORD} ORDER BY r.id")).at(path)?;
        let mut found = query.query([]).at(path)?;
        while let Some(row) = found.next().at(path)? {
            let record = Box::new(keys.record(&snapshot, row).at(path)?);
            let run = uids.get(&record.run).ok_or_else(|| DbError::Corrupt {
                path: path.clone(),
                what: format!("record {} belongs to no run", record.id),
            })?;
            visit(Item::Record { record, run })?;
        }
        let bests = rows::collect(
            &snapshot,
            path,
            "SELECT r.digest, b.default_seconds, b.ab_ratio, b.stored FROM best b JOIN record r ON r.id = b.record
             ORDER BY b.task, b.target, b.threads",
            [],
            |row| {
                Ok(BestItem {
                    digest: row.get(0)?,
                    default_seconds: row.get(1)?,
                    ab_ratio: row.get(2)?,
                    stored: row.get::<_, i64>(3)?.cast_unsigned(),
                })
            },
        )?;
        bests.into_iter().try_for_each(|best| visit(Item::Best(best)))
    }
}

/// What [`Database::walk`] visits.
enum Item<'w> {
    Run(Run),
    RunTask { task: RunTask, run: &'w str },
    Record { record: Box<Record>, run: &'w str },
    Best(BestItem),
}

/// A winner that names its record by content.
struct BestItem {
    digest: Vec<u8>,
    default_seconds: f64,
    ab_ratio: f64,
    stored: u64,
}

/// Stores what comes from another database, inside the caller's transaction.
struct Importer<'c> {
    conn: &'c Connection,
    path: &'c Path,
    inserter: Inserter<'c>,
    runs: HashMap<String, RunId>,
    /// Runs that this import brought: the tasks of the others are known.
    fresh: HashSet<RunId>,
    done: Imported,
}

impl<'c> Importer<'c> {
    fn new(conn: &'c Connection, path: &'c Path) -> Importer<'c> {
        let inserter = Inserter::new(conn, path, now());
        Importer {
            conn,
            path,
            inserter,
            runs: HashMap::new(),
            fresh: HashSet::new(),
            done: Imported::default(),
        }
    }

    fn line(&mut self, line: Line) -> Result<(), DbError> {
        match line {
            Line::TalwegRecords(_) => Ok(()),
            Line::Run(line) => {
                let (uid, started) = (line.uid.clone(), line.started);
                self.run(&uid, &line.info(), started)
            }
            Line::RunTask(line) => {
                let run = line.run.clone();
                self.run_task(&run, &line.task())
            }
            Line::Record(line) => {
                let run = self.run_id(&line.run)?;
                self.record(&line.into_new(run))
            }
            Line::Best(line) => {
                let digest = unhex(&line.record).ok_or_else(|| {
                    self.bad(format!("`{}` is not the content hash of a record", line.record))
                })?;
                self.best(&BestItem {
                    digest,
                    default_seconds: line.default_seconds,
                    ab_ratio: line.ab_ratio,
                    stored: line.stored,
                })
            }
        }
    }

    fn run(&mut self, uid: &str, info: &RunInfo, started: u64) -> Result<(), DbError> {
        if uid.is_empty() {
            return Err(self.bad("a run's uid is empty".into()));
        }
        let known = self.find_run(uid)?;
        let id = put_run(self.conn, self.path, uid, info, started)?;
        if known.is_none() {
            self.done.runs += 1;
            self.fresh.insert(id);
        }
        self.runs.insert(uid.to_string(), id);
        Ok(())
    }

    fn run_id(&mut self, uid: &str) -> Result<RunId, DbError> {
        if let Some(id) = self.runs.get(uid) {
            return Ok(*id);
        }
        let id = self.find_run(uid)?.ok_or_else(|| {
            self.bad(format!("the record's run `{uid}` is neither stored nor on a line before"))
        })?;
        self.runs.insert(uid.to_string(), id);
        Ok(id)
    }

    fn run_task(&mut self, uid: &str, task: &RunTask) -> Result<(), DbError> {
        let run = self.run_id(uid)?;
        if !self.fresh.contains(&run) {
            return Ok(());
        }
        put_task(&mut self.inserter, self.conn, self.path, run, task)
    }

    fn find_run(&self, uid: &str) -> Result<Option<RunId>, DbError> {
        self.conn
            .query_row("SELECT id FROM run WHERE uid = ?1", [uid], |row| row.get(0).map(RunId))
            .optional()
            .at(self.path)
    }

    fn record(&mut self, record: &NewRecord) -> Result<(), DbError> {
        let placed = self.inserter.insert(record)?;
        self.done.records += u64::from(placed.new);
        self.done.duplicates += u64::from(!placed.new);
        self.done.verified += u64::from(placed.verified);
        Ok(())
    }

    fn best(&mut self, best: &BestItem) -> Result<(), DbError> {
        let found: Option<i64> = self
            .conn
            .query_row("SELECT id FROM record WHERE digest = ?1", [&best.digest], |row| row.get(0))
            .optional()
            .at(self.path)?;
        let record = found.map(RecordId).ok_or_else(|| {
            self.bad(format!(
                "the winner's record {} is neither stored nor on a line before",
                hex(&best.digest)
            ))
        })?;
        let new = NewBest { record, default_seconds: best.default_seconds, ab_ratio: best.ab_ratio };
        match put_best(self.conn, self.path, &new, Replace::IfFaster, best.stored)? {
            BestOutcome::First | BestOutcome::Replaced { .. } => self.done.bests += 1,
            BestOutcome::Kept { .. } => self.done.bests_kept += 1,
        }
        Ok(())
    }

    fn bad(&self, what: String) -> DbError {
        DbError::InvalidValue { path: self.path.to_path_buf(), what }
    }
}

fn io_error(path: &Path, doing: &str, error: &std::io::Error) -> DbError {
    DbError::Io { path: path.to_path_buf(), what: format!("{doing} failed: {error}") }
}

/// The parser's message with the column only: it sees one line at a time.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("{what} (column {})", error.column())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..16).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()).collect()
}
