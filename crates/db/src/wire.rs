//! The lines of an export: one JSON object each, with types of their own so that the format changes only on purpose.

use serde::{Deserialize, Serialize};

use crate::record::{Failure, NewRecord, Record, Run, RunId, RunInfo, RunTask, Samples, TargetKey, TaskKey};

/// The version of the format that is written and read.
pub(crate) const FORMAT: u32 = 2;

/// One line. A format line comes first; runs come before their tasks and records, records before the winners they are.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    TalwegRecords(FormatLine),
    Run(RunLine),
    RunTask(RunTaskLine),
    Record(RecordLine),
    Best(BestLine),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FormatLine {
    pub(crate) format: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunLine {
    pub(crate) uid: String,
    strategy: String,
    seed: u64,
    command: String,
    tool_version: String,
    environment: String,
    pub(crate) started: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordLine {
    task: String,
    task_version: u32,
    target: String,
    threads: u32,
    trace: String,
    outcome: OutcomeLine,
    verification: Option<f64>,
    strategy: String,
    seed: u64,
    pub(crate) run: String,
    when: u64,
    compile_seconds: f64,
    probe: Option<f64>,
    predicted: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    elapsed: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OutcomeLine {
    Samples(SamplesLine),
    Failure(FailureLine),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SamplesLine {
    seconds: Vec<f64>,
    inner: u32,
    rejected: u32,
    disturbed: bool,
    stop: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FailureLine {
    cause: String,
    text: String,
}

/// A task of a run, in the order in which the run had them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunTaskLine {
    pub(crate) run: String,
    task: String,
    task_version: u32,
    name: String,
    weight: f64,
    flops: f64,
}

impl RunTaskLine {
    pub(crate) fn of(task: RunTask, run: String) -> RunTaskLine {
        RunTaskLine {
            run,
            task: task.task.text.to_string(),
            task_version: task.task.version,
            name: task.name,
            weight: task.weight,
            flops: task.flops,
        }
    }

    pub(crate) fn task(self) -> RunTask {
        let task = TaskKey::new(self.task, self.task_version);
        RunTask { task, name: self.name, weight: self.weight, flops: self.flops }
    }
}

/// A winner, naming its record by content.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BestLine {
    pub(crate) record: String,
    pub(crate) default_seconds: f64,
    pub(crate) ab_ratio: f64,
    pub(crate) stored: u64,
}

impl RunLine {
    pub(crate) fn of(run: Run) -> RunLine {
        RunLine {
            uid: run.uid,
            strategy: run.info.strategy,
            seed: run.info.seed,
            command: run.info.command,
            tool_version: run.info.tool_version,
            environment: run.info.environment,
            started: run.started,
        }
    }

    pub(crate) fn info(self) -> RunInfo {
        RunInfo {
            strategy: self.strategy,
            seed: self.seed,
            command: self.command,
            tool_version: self.tool_version,
            environment: self.environment,
        }
    }
}

impl RecordLine {
    pub(crate) fn of(record: Record, run: String) -> RecordLine {
        RecordLine {
            task: record.task.text.to_string(),
            task_version: record.task.version,
            target: record.target.text.to_string(),
            threads: record.threads,
            trace: record.trace,
            outcome: match record.outcome {
                Ok(samples) => OutcomeLine::Samples(SamplesLine {
                    seconds: samples.seconds,
                    inner: samples.inner,
                    rejected: samples.rejected,
                    disturbed: samples.disturbed,
                    stop: samples.stop,
                }),
                Err(failure) => {
                    OutcomeLine::Failure(FailureLine { cause: failure.cause, text: failure.text })
                }
            },
            verification: record.verification,
            strategy: record.strategy,
            seed: record.seed,
            run,
            when: record.when,
            compile_seconds: record.compile_seconds,
            probe: record.probe,
            predicted: record.predicted,
            elapsed: record.elapsed,
        }
    }

    pub(crate) fn into_new(self, run: RunId) -> NewRecord {
        NewRecord {
            task: TaskKey::new(self.task, self.task_version),
            target: TargetKey::new(self.target),
            threads: self.threads,
            trace: self.trace,
            outcome: match self.outcome {
                OutcomeLine::Samples(line) => Ok(Samples {
                    seconds: line.seconds,
                    inner: line.inner,
                    rejected: line.rejected,
                    disturbed: line.disturbed,
                    stop: line.stop,
                }),
                OutcomeLine::Failure(line) => Err(Failure { cause: line.cause, text: line.text }),
            },
            verification: self.verification,
            strategy: self.strategy,
            seed: self.seed,
            run,
            when: Some(self.when),
            compile_seconds: self.compile_seconds,
            probe: self.probe,
            predicted: self.predicted,
            elapsed: self.elapsed,
        }
    }
}
