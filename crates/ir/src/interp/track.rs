//! Who wrote and read which element: finds reads of what was never written, and races between parallel iterations.

use talweg_expr::Symbol;

/// An executed iteration of a parallel loop; 0 is the code outside all of them.
pub(crate) type Iteration = u32;

/// One parallel iteration.
struct Entry {
    parent: Iteration,
    /// Which execution of which loop it belongs to: iterations race only with those of the same execution.
    execution: u32,
    depth: u32,
    var: u32,
    value: i64,
}

/// All parallel iterations executed so far.
pub(crate) struct Iterations {
    entries: Vec<Entry>,
    executions: u32,
    /// The iteration that is running.
    pub current: Iteration,
}

/// Two different iterations of one parallel loop.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conflict {
    pub var: u32,
    pub first: i64,
    pub second: i64,
}

impl Iterations {
    pub fn new() -> Iterations {
        let outside = Entry { parent: 0, execution: 0, depth: 0, var: 0, value: 0 };
        Iterations { entries: vec![outside], executions: 0, current: 0 }
    }

    /// Begins an execution of a parallel loop; gives its number.
    pub fn begin_loop(&mut self) -> u32 {
        self.executions += 1;
        self.executions
    }

    /// Begins an iteration; gives the enclosing one, to restore with [`Iterations::leave`].
    pub fn enter(&mut self, execution: u32, var: u32, value: i64) -> Iteration {
        let parent = self.current;
        let depth = self.entries[parent as usize].depth + 1;
        self.entries.push(Entry { parent, execution, depth, var, value });
        self.current = self.entries.len() as Iteration - 1;
        parent
    }

    /// Ends an iteration.
    pub fn leave(&mut self, parent: Iteration) {
        self.current = parent;
    }

    /// Whether an earlier access and the running iteration may run at the same time.
    pub fn conflict(&self, earlier: Iteration) -> Option<Conflict> {
        if earlier == 0 || earlier == self.current {
            return None;
        }
        let entry = |i: Iteration| &self.entries[i as usize];
        let (mut a, mut b) = (earlier, self.current);
        while entry(a).depth > entry(b).depth {
            a = entry(a).parent;
        }
        while entry(b).depth > entry(a).depth {
            b = entry(b).parent;
        }
        let mut found = None;
        while a != b {
            let (x, y) = (entry(a), entry(b));
            found = (x.execution == y.execution).then_some(Conflict {
                var: x.var,
                first: x.value,
                second: y.value,
            });
            (a, b) = (x.parent, y.parent);
        }
        found
    }
}

/// What is known about one element.
#[derive(Clone, Copy, Default)]
struct Mark {
    /// The generation of the buffer that wrote it last.
    written: u32,
    writer: Iteration,
    /// The last reader since, and another one in conflict with it.
    readers: [Iteration; 2],
}

/// What is known about all elements of one buffer.
#[derive(Default)]
pub(crate) struct Marks {
    generation: u32,
    marks: Vec<Mark>,
}

/// What is wrong with an access.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Violation {
    Uninitialised,
    Race { first: &'static str, second: &'static str, conflict: Conflict },
}

impl Marks {
    /// The buffer begins anew with undefined contents.
    pub fn reset(&mut self, len: usize) {
        if self.marks.len() != len || self.generation == u32::MAX {
            self.marks = vec![Mark::default(); len];
            self.generation = 0;
        }
        self.generation += 1;
    }

    /// Notes a read.
    #[inline]
    pub fn read(&mut self, at: usize, iterations: &Iterations) -> Result<(), Violation> {
        let mark = &mut self.marks[at];
        if mark.written != self.generation {
            return Err(Violation::Uninitialised);
        }
        let current = iterations.current;
        if current == 0 || mark.readers[0] == current {
            return Ok(());
        }
        if let Some(conflict) = iterations.conflict(mark.writer) {
            return Err(Violation::Race { first: "written", second: "read", conflict });
        }
        let other =
            if iterations.conflict(mark.readers[0]).is_some() { mark.readers[0] } else { mark.readers[1] };
        mark.readers = [current, other];
        Ok(())
    }

    /// Notes a write.
    #[inline]
    pub fn write(&mut self, at: usize, iterations: &Iterations) -> Result<(), Violation> {
        let mark = &mut self.marks[at];
        let current = iterations.current;
        if mark.written == self.generation && (mark.writer != current || mark.readers != [current, 0]) {
            if let Some(conflict) = iterations.conflict(mark.writer) {
                return Err(Violation::Race { first: "written", second: "written", conflict });
            }
            for reader in mark.readers {
                if let Some(conflict) = iterations.conflict(reader) {
                    return Err(Violation::Race { first: "read", second: "written", conflict });
                }
            }
        }
        *mark = Mark { written: self.generation, writer: current, readers: [0, 0] };
        Ok(())
    }
}

/// The name of a variable by its number.
pub(crate) fn variable(vars: &[Symbol], at: u32) -> Symbol {
    vars.get(at as usize).cloned().unwrap_or_else(|| Symbol::var("?"))
}
