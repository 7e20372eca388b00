//! What the verbs that take a model share: where it is, how its dimensions are bound, and getting it ready to run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};
use talweg::algorithms::DEFAULT_MAX_ERROR;
use talweg::lock::{Lock, LockedBuildError};
use talweg::network::{Network, NetworkError, Winners};
use talweg_artifact::Artefact;
use talweg_db::Database;
use talweg_onnx::ImportOptions;
use talweg_runtime::model::{Model, Session, SessionOptions};
use talweg_target::Target;
use talweg_tensor::{Tensor, npy};

use super::{DEFAULT_DB, Failure, check_threads, write_file};

/// A model and how its open dimensions are bound.
#[derive(Args, Clone)]
pub struct ModelArguments {
    /// The model: an ONNX file, or for the verbs that only run it a compiled artefact.
    pub model: PathBuf,
    #[command(flatten)]
    bindings: Bindings,
}

/// The options that the command line itself names, those with a default or a setting left out. It is the first field of a
/// group of options: whatever reads one takes it away.
#[derive(Clone, Default)]
struct Given(Vec<String>);

impl Given {
    fn has(&self, option: &str) -> bool {
        self.0.iter().any(|given| given == option)
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Given, clap::Error> {
        let ids = matches.ids().map(|id| id.as_str());
        let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        Ok(Given(ids.filter(is_given).map(str::to_string).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Given::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

/// How open dimensions of a model are bound.
#[derive(Args, Clone)]
pub struct Bindings {
    #[command(flatten)]
    given: Given,
    /// The shape of an input, for example `x=1,3,224,224`; once for each input.
    #[arg(long = "shape", value_name = "INPUT=N,N,...", value_parser = parse_shape)]
    shapes: Vec<(String, Vec<usize>)>,
    /// The size of a named dimension, for example `batch=1`; once for each.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = parse_dim)]
    dims: Vec<(String, usize)>,
    /// Fixes an input to the values in a .npy file, for inputs that determine shapes; once for each.
    #[arg(long = "fix", value_name = "INPUT=FILE.npy", value_parser = parse_file)]
    fixed: Vec<(String, PathBuf)>,
    /// The error that an algorithm with fewer operations (Winograd, Strassen) may bring into one operator, relative to the
    /// scale of its result; 0 allows exact algorithms only. A lock is taken as it is unless this is given.
    #[arg(long, default_value_t = DEFAULT_MAX_ERROR, value_name = "ERROR")]
    max_error: f64,
}

impl Bindings {
    /// These bindings for a model.
    pub fn of(self, model: PathBuf) -> ModelArguments {
        ModelArguments { model, bindings: self }
    }

    /// An option of the command line that only importing a model heeds.
    fn of_import(&self) -> Option<&'static str> {
        let options =
            [("dims", "--dim"), ("shapes", "--shape"), ("fixed", "--fix"), ("max_error", "--max-error")];
        options.into_iter().find(|(id, _)| self.given.has(id)).map(|(_, option)| option)
    }
}

/// How a model is compiled.
#[derive(Args, Clone)]
pub struct CompileArguments {
    #[command(flatten)]
    given: Given,
    /// The tuning database, whose winners are used.
    #[arg(long, default_value = DEFAULT_DB, value_name = "FILE")]
    pub db: PathBuf,
    /// Threads the model will run with: which winners are looked up, and how it is run.
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// A lock to compile by.
#[derive(Args, Clone)]
pub struct LockArguments {
    /// Compile by the schedules of this lock, which `talweg tune` wrote, instead of the tuning database.
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
}

impl LockArguments {
    /// The lock, if one was given; what may make the bits differ goes to standard error.
    pub fn read(&self) -> Result<Option<Lock>, Failure> {
        let Some(path) = &self.lock else { return Ok(None) };
        let lock = Lock::read(path).map_err(Failure::input)?;
        for warning in lock.warnings() {
            eprintln!("warning: {warning}");
        }
        Ok(Some(lock))
    }
}

impl CompileArguments {
    /// The number of threads: as given, or all cores.
    pub fn threads(&self) -> Result<usize, Failure> {
        let threads =
            self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
        check_threads(threads)?;
        Ok(threads)
    }

    /// An option of the command line that only compiling heeds.
    fn of_import(&self) -> Option<&'static str> {
        self.given.has("db").then_some("--db")
    }

    /// The database, if there is one; one that the command line names must be there.
    pub fn database(&self) -> Result<Option<Database>, Failure> {
        database(&self.db, self.given.has("db"))
    }

    /// The stored winners of a network's tasks, none if there is no database; the algorithms are chosen by them.
    pub fn winners(&self, network: &mut Network, target: &Target) -> Result<Winners, Failure> {
        winners(self.database()?.as_ref(), network, target, self.threads()?)
    }
}

impl ModelArguments {
    /// Whether the file is an artefact, by its beginning.
    pub fn is_artefact(&self) -> bool {
        use std::io::Read;
        let mut start = [0; 6];
        let read = std::fs::File::open(&self.model).and_then(|mut file| file.read_exact(&mut start));
        read.is_ok() && &start == b"talweg"
    }

    /// The files it is read from.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.model].into_iter().chain(self.bindings.fixed.iter().map(|(_, file)| file))
    }

    /// The inputs that are fixed, with their values. They are constants for talweg, and ordinary inputs for others.
    pub fn fixed(&self) -> Result<Vec<(String, Tensor)>, Failure> {
        self.bindings.fixed.iter().map(|(name, path)| Ok((name.clone(), read_npy(path)?))).collect()
    }

    /// Imports the model and cuts it into tasks.
    pub fn network(&self) -> Result<Network, Failure> {
        let options = ImportOptions {
            shapes: self.bindings.shapes.iter().cloned().collect(),
            dims: self.bindings.dims.iter().cloned().collect(),
            fixed: self.fixed()?.into_iter().collect(),
        };
        let max_error = self.bindings.max_error;
        if !(0.0..=1.0).contains(&max_error) {
            return Err(Failure::input(format!("--max-error {max_error}: give a number from 0 to 1")));
        }
        let mut network = Network::open(&self.model, &options).map_err(|e| match e {
            NetworkError::Import(e) => Failure::input(format!("{}: {e}", self.model.display())),
            e => Failure::work(format!("{}: {e}", self.model.display())),
        })?;
        network.max_error = max_error;
        Ok(network)
    }

    /// Compiles this model's network by a lock. A schedule that does not fit the network is a fault of the lock.
    pub fn compile_locked(&self, lock: &Lock, network: &mut Network) -> Result<Artefact, Failure> {
        if self.bindings.given.has("max_error") {
            lock.check_error(network, self.bindings.max_error).map_err(Failure::input)?;
        }
        lock.compile(network, jobs()).map_err(|e| match e {
            LockedBuildError::Lock(e) => Failure::input(e),
            LockedBuildError::Build(e) => Failure::input(format!("the lock does not fit the model: {e}")),
        })
    }

    /// The model loaded: an artefact as it is, an ONNX file compiled in memory.
    pub fn load(&self, compile: &CompileArguments) -> Result<Arc<Model>, Failure> {
        if self.is_artefact() {
            let path = self.model.display();
            if let Some(option) = self.bindings.of_import().or(compile.of_import()) {
                return Err(is_compiled(&self.model, option));
            }
            return Ok(Arc::new(
                Model::open(&self.model).map_err(|e| Failure::input(format!("{path}: {e}")))?,
            ));
        }
        let mut network = self.network()?;
        let target = Target::host();
        let winners = compile.winners(&mut network, &target)?;
        let artefact = network.compile(&target, &winners, jobs()).map_err(Failure::work)?;
        let bytes = artefact.to_bytes().map_err(Failure::work)?;
        Ok(Arc::new(Model::from_bytes(&bytes).map_err(Failure::work)?))
    }

    /// The model loaded, compiled by a lock if there is one.
    pub fn load_locked(
        &self,
        compile: &CompileArguments,
        lock: &LockArguments,
    ) -> Result<Arc<Model>, Failure> {
        let Some(lock) = lock.read()? else { return self.load(compile) };
        if self.is_artefact() {
            return Err(is_compiled(&self.model, "--lock"));
        }
        lock.check_target(&Target::host()).map_err(Failure::input)?;
        let artefact = self.compile_locked(&lock, &mut self.network()?)?;
        let bytes = artefact.to_bytes().map_err(Failure::work)?;
        Ok(Arc::new(Model::from_bytes(&bytes).map_err(Failure::work)?))
    }

    /// The model loaded, with memory and threads.
    pub fn session(&self, compile: &CompileArguments) -> Result<Session, Failure> {
        let options = SessionOptions { threads: compile.threads()?, pin: false };
        Session::new(self.load(compile)?, &options).map_err(Failure::work)
    }
}

/// An artefact with an option that says how a model is compiled, which it would not heed.
pub fn is_compiled(artefact: &Path, option: &str) -> Failure {
    let path = artefact.display();
    Failure::input(format!("{path} is compiled already; give the ONNX file with {option}"))
}

/// Threads that compile.
pub fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// The database at a path, if there is one; it must be there when the user asks for it.
pub fn database(path: &Path, is_wanted: bool) -> Result<Option<Database>, Failure> {
    match path.exists() {
        true => Database::open_existing(path).map(Some).map_err(Failure::input),
        false if is_wanted => Err(Failure::input(format!(
            "there is no database `{}`; name the one that `talweg tune` wrote, or leave it out",
            path.display()
        ))),
        false => Ok(None),
    }
}

/// The stored winners of a network's tasks, none without a database; the algorithms are chosen by them.
pub fn winners(
    db: Option<&Database>,
    network: &mut Network,
    target: &Target,
    threads: usize,
) -> Result<Winners, Failure> {
    let winners = match db {
        Some(db) => Winners::look_up(db, &network.program, target, threads).map_err(Failure::work)?,
        None => Winners::default(),
    };
    network.choose(target, &winners);
    Ok(winners)
}

/// How many kernels of a compiled model are by stored winners, and how many it has.
pub fn tuned_of(model: &Model) -> (usize, usize) {
    let kernels = &model.manifest().kernels;
    (kernels.iter().filter(|kernel| kernel.schedule == "tuned").count(), kernels.len())
}

/// A line each about the algorithms of convolutions and of products where there were several, and one about convolutions
/// that may be one kernel with the one before; none where there was no choice.
pub fn algorithms(network: &Network) -> Option<String> {
    let mut counts: BTreeMap<(bool, String), usize> = BTreeMap::new();
    let (mut pairs, mut joined) = (0, 0);
    for fork in &network.program.forks {
        if fork.before.is_some() {
            pairs += 1;
            joined += usize::from(fork.taken > 0);
        } else {
            let key = (talweg::algorithms::is_product(fork), fork.chosen().algorithm.to_string());
            *counts.entry(key).or_default() += 1;
        }
    }
    let error = network.max_error;
    let mut text = String::new();
    for (product, what) in [(false, "convolutions"), (true, "products with constant weights")] {
        let own = counts.iter().filter(|((is_product, _), _)| *is_product == product);
        let parts: Vec<String> = own.map(|((_, name), count)| format!("{count} {name}")).collect();
        if !parts.is_empty() {
            text += &format!("algorithms of the {what}: {} (--max-error {error:e})\n", parts.join(", "));
        }
    }
    if pairs > 0 {
        text +=
            &format!("depthwise convolutions in one kernel with the pointwise one: {joined} of {pairs}\n");
    }
    (!text.is_empty()).then_some(text)
}

/// Inputs for a session: from files where given, else small random numbers.
pub fn inputs(session: &Session, files: &[(String, PathBuf)]) -> Result<Vec<Tensor>, Failure> {
    let mut inputs = talweg::inputs::of_manifest(session.model().manifest());
    for (name, path) in files {
        let at = session.input_index(name).map_err(Failure::input)?;
        inputs[at] = read_npy(path)?;
    }
    Ok(inputs)
}

/// A tensor from a .npy file.
pub fn read_npy(path: &Path) -> Result<Tensor, Failure> {
    let refused = |e: &dyn std::fmt::Display| Failure::input(format!("{}: {e}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| refused(&e))?;
    npy::read_npy(&bytes).map_err(|e| refused(&e))
}

/// Writes tensors to a .npz file, or a single one to a .npy file, by the path's ending.
pub fn write_arrays(path: &Path, named: &[(String, Tensor)]) -> Result<(), Failure> {
    let refused = |e: &dyn std::fmt::Display| Failure::input(format!("{}: {e}", path.display()));
    let bytes = match (path.extension().and_then(|e| e.to_str()), named) {
        (Some("npy"), [(_, only)]) => Ok(npy::write_npy(only)),
        (Some("npy"), _) => {
            let count = named.len();
            return Err(refused(&format!("the model has {count} outputs; give a name that ends in .npz")));
        }
        _ => npy::npz_bytes(named.iter().map(|(name, tensor)| (name.as_str(), tensor))),
    };
    write_file(path, &bytes.map_err(|e| refused(&e))?)
}

fn split<'a>(text: &'a str, form: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once('=')
        .filter(|(name, value)| !name.is_empty() && !value.is_empty())
        .ok_or(format!("expected {form}"))
}

fn parse_shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let (name, extents) = split(text, "INPUT=N,N,..., for example x=1,3,224,224")?;
    let extents: Result<Vec<usize>, _> = extents.split([',', 'x']).map(|e| e.trim().parse()).collect();
    let extents = extents.map_err(|_| format!("`{text}`: extents are whole numbers joined by commas"))?;
    Ok((name.to_string(), extents))
}

fn parse_dim(text: &str) -> Result<(String, usize), String> {
    let (name, size) = split(text, "NAME=N, for example batch=1")?;
    let size = size.trim().parse().map_err(|_| format!("`{text}`: the size is a whole number"))?;
    Ok((name.to_string(), size))
}

/// Reads `NAME=FILE`.
pub fn parse_file(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = split(text, "NAME=FILE.npy")?;
    Ok((name.to_string(), PathBuf::from(path)))
}
