//! An artefact as a shared library with a C header and an example: no file to load, no talweg to link.
//!
//! The kernels are linked as they are, the weights are embedded, and the plan becomes C that calls the kernels in order.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use talweg_runtime::model::{Place, Port, Work};

use crate::build::Artefact;

const POOL: &str = include_str!("pool.c");

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// Some steps have no kernel.
    #[error(
        "a shared library holds kernels only, and {count} steps are plain code, the first of them {first}; compile to a .talweg file instead"
    )]
    PlainSteps {
        /// How many.
        count: usize,
        /// The node of the first.
        first: String,
    },
    /// A program of the C toolchain is missing.
    #[error("cannot start `{program}`: {source}; install gcc and binutils (apt-get install gcc binutils)")]
    NoToolchain {
        /// The program.
        program: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A program of the C toolchain failed.
    #[error("`{program}` failed: {text}")]
    Toolchain {
        /// The program.
        program: &'static str,
        /// What it said.
        text: String,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`: {source}; check the folder and the free space", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The files a library consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// The shared library.
    pub library: PathBuf,
    /// Its header.
    pub header: PathBuf,
    /// A program that uses it.
    pub example: PathBuf,
}

impl Artefact {
    /// Writes `path` (a name ending in `.so`), its header and an example beside it.
    pub fn write_library(&self, path: &Path) -> Result<Library, LibraryError> {
        let plain = self.manifest.steps.iter().filter(|step| matches!(step.work, Work::Plain { .. }));
        let plain: Vec<String> = plain.map(|step| step.nodes.join(" + ")).collect();
        if let Some(first) = plain.first() {
            return Err(LibraryError::PlainSteps { count: plain.len(), first: first.clone() });
        }
        let prefix = identifier(&self.manifest.model);
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let failed = |path: &Path, source| LibraryError::Write { path: path.to_path_buf(), source };
        let work =
            tempfile::Builder::new().prefix(".talweg-").tempdir_in(folder).map_err(|e| failed(folder, e))?;
        let put = |name: &str, bytes: &[u8]| {
            let file = work.path().join(name);
            std::fs::write(&file, bytes).map_err(|e| failed(&file, e)).map(|()| file)
        };
        let mut objects = Vec::new();
        for (at, kernel) in self.manifest.kernels.iter().enumerate() {
            let object = put(&format!("kernel{at}.o"), self.object(at))?;
            let renamed = format!("{}={}", kernel.symbol, symbol(&prefix, at));
            run("objcopy", Command::new("objcopy").arg("--redefine-sym").arg(renamed).arg(&object))?;
            objects.push(object);
        }
        let weights = work.path().join("weights.bin");
        let file = std::fs::File::create(&weights).map_err(|e| failed(&weights, e))?;
        self.write_weights(&mut io::BufWriter::new(file)).map_err(|e| failed(&weights, e))?;
        let header = path.with_extension("h");
        let source = put("model.c", self.source(&prefix, &header, &weights).as_bytes())?;
        let header_text = self.header(&prefix);
        let own_header = put(&file_name(&header), header_text.as_bytes())?;
        let built = work.path().join("library.so");
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-o"])
            .arg(&built);
        run("cc", cc.arg(&source).args(&objects))?;
        let example = path.with_file_name(format!("{prefix}_example.c"));
        std::fs::rename(&built, path).map_err(|e| failed(path, e))?;
        std::fs::rename(&own_header, &header).map_err(|e| failed(&header, e))?;
        std::fs::write(&example, self.example(&prefix, &header)).map_err(|e| failed(&example, e))?;
        Ok(Library { library: path.to_path_buf(), header, example })
    }

    fn header(&self, prefix: &str) -> String {
        let manifest = &self.manifest;
        let guard = format!("{}_H", prefix.to_uppercase());
        let mut text = format!(
            "/* {}: compiled by {} for {}. */\n#ifndef {guard}\n#define {guard}\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
            manifest.model, manifest.tool, manifest.arch
        );
        for (kind, ports) in [("input", &manifest.inputs), ("output", &manifest.outputs)] {
            for (at, port) in ports.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "/* {kind} {at}: {} {}, {} bytes */",
                    port.name,
                    port.operand.ty(),
                    bytes(port)
                );
            }
        }
        let _ = write!(
            text,
            "\ntypedef struct {prefix}_session {prefix}_session;\n\n\
             /* Memory and threads for the model; NULL without memory, threads, or the CPU features it needs. */\n\
             {prefix}_session *{prefix}_create(int threads);\n\
             /* Frees a session. NULL is allowed. */\n\
             void {prefix}_free({prefix}_session *session);\n\
             /* The memory of an input, to be filled before a run and kept between runs; NULL if there is none. */\n\
             void *{prefix}_input({prefix}_session *session, int index);\n\
             /* The memory of an output, to be read after a run; NULL if there is none. */\n\
             const void *{prefix}_output(const {prefix}_session *session, int index);\n\
             /* Runs the model; one run at a time for each session. */\n\
             void {prefix}_run({prefix}_session *session);\n\n\
             #ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
        );
        text
    }

    fn source(&self, prefix: &str, header: &Path, weights: &Path) -> String {
        let manifest = &self.manifest;
        let mut text = format!(
            "#define _GNU_SOURCE\n#include \"{}\"\n#include <pthread.h>\n#include <stdatomic.h>\n#include <stdint.h>\n\
             #include <stdlib.h>\n#include <string.h>\n#define EXPORT __attribute__((visibility(\"default\")))\n\n{POOL}\n",
            file_name(header)
        );
        let path = weights.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
        let _ = write!(
            text,
            "__asm__(\".section .rodata\\n.balign 4096\\n.global {prefix}_weights\\n.hidden {prefix}_weights\\n\"\n\
             \"{prefix}_weights:\\n.incbin \\\"{path}\\\"\\n.byte 0\\n.text\\n\");\n\
             extern const uint8_t {prefix}_weights[];\n\n"
        );
        for at in 0..manifest.kernels.len() {
            let name = symbol(prefix, at);
            let _ = writeln!(text, "extern void {name}(uint8_t *const *, uint8_t *, const parallel *);");
            let _ = writeln!(text, "__asm__(\".hidden {name}\");");
        }
        let _ = write!(
            text,
            "\nstruct {prefix}_session {{\n    pool pool;\n    uint8_t *arena;\n    uint8_t *workspace;\n}};\n\n\
             #define A(offset) (s->arena + offset##u)\n#define W(offset) ((uint8_t *){prefix}_weights + offset##u)\n\
             #define S(offset, most) (s->pool.table.threads <= most ? A(offset) : s->workspace)\n\n"
        );
        self.create(prefix, &mut text);
        let _ = write!(
            text,
            "EXPORT void {prefix}_free({prefix}_session *s) {{\n    if (!s) return;\n    \
             pool_free(&s->pool, s->pool.table.threads - 1);\n    free(s->arena);\n    free(s->workspace);\n    free(s);\n}}\n\n"
        );
        for (function, qualifier, ports) in
            [("input", "", &manifest.inputs), ("output", "const ", &manifest.outputs)]
        {
            let _ = write!(
                text,
                "EXPORT {qualifier}void *{prefix}_{function}({qualifier}{prefix}_session *s, int index) {{\n    switch (index) {{\n"
            );
            for (at, port) in ports.iter().enumerate() {
                let _ = writeln!(text, "    case {at}: return {};", place(port.operand.place));
            }
            text += "    default: return NULL;\n    }\n}\n\n";
        }
        let _ = writeln!(text, "EXPORT void {prefix}_run({prefix}_session *s) {{");
        for step in &manifest.steps {
            if let Work::Kernel { kernel, arguments, workspace } = &step.work {
                let arguments: Vec<String> = arguments.iter().map(|at| place(*at)).collect();
                let alone = manifest.kernels[*kernel].threads == Some(1);
                let table = if alone { "&serial" } else { "&s->pool.table" };
                let workspace = match workspace {
                    Some(planned) => format!("S({}, {})", planned.offset, planned.threads),
                    None => "s->workspace".to_string(),
                };
                let _ = writeln!(
                    text,
                    "    {}((uint8_t *const[]){{{}}}, {workspace}, {table});",
                    symbol(prefix, *kernel),
                    arguments.join(", ")
                );
            }
        }
        text + "}\n"
    }

    fn create(&self, prefix: &str, text: &mut String) {
        let manifest = &self.manifest;
        let _ = writeln!(text, "EXPORT {prefix}_session *{prefix}_create(int threads) {{");
        const CHECKED: [&str; 7] = ["avx2", "fma", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];
        for feature in manifest.features.iter().filter(|f| CHECKED.contains(&f.as_str())) {
            let _ = writeln!(text, "    if (!__builtin_cpu_supports(\"{feature}\")) return NULL;");
        }
        // What each further thread needs at most; shared parts are counted once.
        let one = manifest.kernels.iter().map(|kernel| kernel.workspace_bytes(1)).max().unwrap_or(0);
        let (per_thread, planned) = (scratch(manifest), planned_threads(manifest));
        let arena = manifest.arena_bytes.next_multiple_of(64).max(64);
        let _ = write!(
            text,
            "    if (threads < 1) threads = 1;\n    {prefix}_session *s = calloc(1, sizeof *s);\n    if (!s) return NULL;\n    \
             s->arena = aligned_alloc(64, {arena}u);\n    \
             s->workspace = aligned_alloc(64, threads <= {planned} ? 64u : {}u + {per_thread}u * (size_t)(threads - 1));\n    \
             if (!s->arena || !s->workspace || pool_start(&s->pool, threads)) {{\n        free(s->arena);\n        \
             free(s->workspace);\n        free(s);\n        return NULL;\n    }}\n    memset(s->arena, 0, {arena}u);\n    return s;\n}}\n\n",
            one.max(64)
        );
    }

    fn example(&self, prefix: &str, header: &Path) -> String {
        let manifest = &self.manifest;
        let mut fill = String::new();
        for (at, port) in manifest.inputs.iter().enumerate() {
            let _ = writeln!(
                fill,
                "    memset({prefix}_input(session, {at}), 0, {}); /* {} */",
                bytes(port),
                port.name
            );
        }
        let shown = manifest.outputs.first().map_or(String::new(), |port| {
            format!(
                "    printf(\"{}[0] = %g\\n\", ((const float *){prefix}_output(session, 0))[0]);\n",
                port.name
            )
        });
        format!(
            "/* cc {prefix}_example.c -L. -l:{} -Wl,-rpath,. -o example */\n#include \"{}\"\n#include <stdio.h>\n\
             #include <string.h>\n\nint main(void) {{\n    {prefix}_session *session = {prefix}_create(2);\n    \
             if (!session) return 1;\n{fill}    {prefix}_run(session);\n{shown}    {prefix}_free(session);\n    return 0;\n}}\n",
            file_name(&header.with_extension("so")),
            file_name(header)
        )
    }
}

/// The scratch of one worker, at most.
fn scratch(manifest: &talweg_runtime::model::Manifest) -> u64 {
    manifest.kernels.iter().map(|kernel| kernel.scratch_bytes.next_multiple_of(64)).max().unwrap_or(0)
}

/// Threads up to which no step needs workspace outside of the arena.
fn planned_threads(manifest: &talweg_runtime::model::Manifest) -> usize {
    let steps = manifest.steps.iter().filter_map(|step| match &step.work {
        Work::Kernel { kernel, workspace, .. } if manifest.kernels[*kernel].workspace_bytes(1) > 0 => {
            Some(workspace.map_or(0, |planned| planned.threads))
        }
        _ => None,
    });
    steps.min().unwrap_or(0)
}

fn symbol(prefix: &str, at: usize) -> String {
    format!("{prefix}_kernel{at}")
}

fn place(place: Place) -> String {
    match place {
        Place::Arena(offset) => format!("A({offset})"),
        Place::Weight(offset) => format!("W({offset})"),
    }
}

fn bytes(port: &Port) -> u64 {
    port.operand.bytes().unwrap_or(0)
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A C identifier made from a name.
fn identifier(name: &str) -> String {
    let clean: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if clean.starts_with(|c: char| c.is_ascii_alphabetic()) { clean } else { format!("model_{clean}") }
}

fn run(program: &'static str, command: &mut Command) -> Result<(), LibraryError> {
    let output = command.output().map_err(|source| LibraryError::NoToolchain { program, source })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(LibraryError::Toolchain { program, text: text.lines().take(5).collect::<Vec<_>>().join("; ") })
}
