//! The table for people.

use super::operators::{is_network, name_of};
use super::results::Results;
use super::run::Settings;
use super::table::{LEVELS, Row, Summary, Table};

/// The bars of the comparison of felix with ansor on operators: speed-ups at each level, the lowest final ratio, the first batch.
const SPEED_UP_BARS: [f64; 3] = [5.0, 4.0, 3.0];
const FINAL_BAR: f64 = 0.97;
const FIRST_BATCH_BAR: f64 = 1.25;

/// The table in Markdown.
pub fn markdown(table: &Table, results: &[Results], settings: &Settings) -> String {
    let mut out = String::from("# Searches compared\n\n");
    let limit = match settings.budget {
        Some(seconds) => format!("{seconds} s each from the start of the process"),
        None => format!("{} trials each on the simulated device", settings.trials.unwrap_or(0)),
    };
    out += &format!(
        "{limit}, {} threads, starting {}; reference `{}`. A speed-up is the reference's {} to reach a share of its own final speed \
         over the contestant's; `<` marks means with runs that did not get there within their time. A final ratio \
         above 1 means that the contestant's winner is faster. At most: the speed-up if the contestant's first sample were \
         good enough, which no choice of programs can exceed. Against whole runs: the time of the reference's whole run over the \
         contestant's to get there. First batch: time of its best over that of the run's final \
         best.\n\n",
        settings.threads,
        if settings.from_default { "near the default schedule" } else { "from nothing" },
        table.reference,
        settings.unit()
    );
    if !results.is_empty() {
        out += &format!(
            "A search whose name ends with a number has that part of the time that `{}` took: half for 2.\n\n",
            table.reference
        );
    }
    out += &summary(table);
    for one in results {
        out += &soonest(one, &table.reference, settings);
    }
    for contestant in &table.contestants {
        out += &format!("\n## {} against {}\n\n", contestant.contestant, table.reference);
        out += &details(contestant, table, settings);
    }
    out
}

fn percent(level: f64) -> String {
    format!("{} %", (level * 1e3).round() / 10.0)
}

fn ratio(value: f64, missed: usize) -> String {
    format!("{}{value:.2}", if missed > 0 { "< " } else { "" })
}

fn optional(value: Option<f64>) -> String {
    value.map_or("-".into(), |v| format!("{v:.2}"))
}

/// One line a contestant.
fn summary(table: &Table) -> String {
    let mut out = String::from("| search | operators |");
    LEVELS.iter().for_each(|level| out += &format!(" speed-up to {} |", percent(*level)));
    out += " final ratio | lowest | on | first batch |\n";
    out += &format!("|{}\n", "---|".repeat(LEVELS.len() + 6));
    for s in &table.contestants {
        out += &format!("| {} | {} |", s.contestant, s.rows.len());
        for (speed_up, missed) in s.speed_ups.iter().zip(&s.missed) {
            out += &format!(" {} |", ratio(*speed_up, *missed));
        }
        out += &format!(
            " {:.3} | {:.3} | {} | {} |\n",
            s.final_ratio,
            s.lowest_ratio,
            name_of(&s.lowest_operator),
            optional(s.first_batch)
        );
        out += &format!("| {}, at most | |", s.contestant);
        s.most.iter().for_each(|most| out += &format!(" {most:.2} |"));
        out += " | | | |\n";
        out += &format!("| {}, against whole runs | |", s.contestant);
        for (saved, missed) in s.against_whole.iter().zip(&s.missed) {
            out += &format!(" {} |", ratio(*saved, *missed));
        }
        out += " | | | |\n";
    }
    out += &format!("| {} | |", table.reference);
    out += &" 1 |".repeat(LEVELS.len());
    out += &format!(" 1 | 1 | | {} |\n", optional(table.reference_first_batch));
    let mut rows = table.contestants.iter().flat_map(|s| &s.rows);
    if table.reference == "ansor" && !rows.any(|row| is_network(&row.spec)) {
        out += "| bar for felix | |";
        SPEED_UP_BARS.iter().for_each(|bar| out += &format!(" {bar} |"));
        out += &" |".repeat(LEVELS.len() - SPEED_UP_BARS.len());
        out += &format!(" | {FINAL_BAR} | | {FIRST_BATCH_BAR} |\n");
    }
    out
}

/// The least time of a search for results as good as the reference's.
fn soonest(results: &Results, reference: &str, settings: &Settings) -> String {
    let Results { search, level, rows, speed_up, ratio: speed, missed } = results;
    let (unit, share) = (settings.unit(), percent(*level));
    let mut out = format!(
        "\n## Results of {search} as good as those of {reference}, to {share}\n\nThe shortest run of {search} whose result has at \
         least {share} of the speed of {reference}'s, and how many times as long {reference} took; the longest where none has.\n\n"
    );
    out += &format!(
        "| operator | {reference}, {unit} | run | {unit} | {reference} / {search}, us | speed-up |\n"
    );
    out += &format!("|{}\n", "---|".repeat(6));
    for row in rows {
        out += &format!(
            "| {} | {:.1} | {} | {:.1} | {:.3} | {} |\n",
            name_of(&row.spec),
            row.reference,
            row.contestant,
            row.own,
            row.ratio,
            ratio(row.speed_up(), usize::from(!row.is_as_good))
        );
    }
    out += &format!("| geometric mean | | | | {speed:.3} | {} |\n", ratio(*speed_up, *missed));
    out
}

/// One line an operator.
fn details(contestant: &Summary, table: &Table, settings: &Settings) -> String {
    let (unit, name) = (if settings.simulated { "trials" } else { "s" }, &contestant.contestant);
    let mut out = format!("| operator | {} us | {name} us | ratio | lowest run |", table.reference);
    for level in LEVELS {
        out += &format!(" {} at {}, {unit} | {name} | speed-up |", table.reference, percent(level));
    }
    out += " first batch |\n";
    out += &format!("|{}\n", "---|".repeat(3 * LEVELS.len() + 6));
    let digits = usize::from(!settings.simulated);
    for row in &contestant.rows {
        let Row { reference_us, best_us, final_ratio, lowest_ratio, .. } = row;
        out += &format!(
            "| {} | {reference_us:.1} | {best_us:.1} | {final_ratio:.3} | {lowest_ratio:.3} |",
            name_of(&row.spec)
        );
        for at in &row.levels {
            let missed =
                if at.missed > 0 { format!(" ({} of {} never)", at.missed, row.runs) } else { String::new() };
            out += &format!(
                " {:.digits$} | {:.digits$}{missed} | {} |",
                at.reference,
                at.own,
                ratio(at.speed_up, at.missed)
            );
        }
        out += &format!(" {} |\n", optional(row.first_batch));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::results::results;
    use crate::contest::run::Run;
    use crate::contest::table::tests::run;

    #[test]
    fn rows_have_as_many_cells_as_their_head() {
        let spec = "matmul:m=512,n=512,k=512";
        let runs = [
            run("ansor", spec, 0, 80.0, &[(1.0, 100.0), (8.0, 50.0)]),
            run("felix", spec, 0, 52.0, &[(1.0, 100.0), (2.0, 52.0)]),
        ];
        let text = whole(&runs);
        assert!(!text.contains("as good as"), "{text}");
        assert!(text.contains("| matmul 512 | 50.0 | 52.0 | 0.962 |"), "{text}");
        assert!(text.contains("(1 of 1 never) | < 0.80 |"), "{text}");
    }

    #[test]
    fn parts_of_the_time_have_a_table_of_their_own() {
        let third = run("felix-3", "net.onnx", 0, 9.0, &[(1.0, 100.0), (2.0, 50.0)]);
        let runs = [
            run("ansor", "net.onnx", 0, 80.0, &[(1.0, 100.0), (8.0, 50.0)]),
            Run { share: 3, seconds: 3.0, ..third },
        ];
        let text = whole(&runs);
        assert!(text.contains("| 9.5 | felix-3 | 3.0 | 1.000 | 3.17 |"), "{text}");
    }

    /// All tables of some runs, whose rows have as many cells as their head.
    fn whole(runs: &[Run]) -> String {
        let text = markdown(&Table::new("ansor", runs), &results("ansor", runs), &runs[0].settings);
        for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
            let cells: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
            assert!(cells.len() > 2 && cells.iter().all(|n| *n == cells[0]), "{cells:?}\n{table}");
        }
        text
    }
}
