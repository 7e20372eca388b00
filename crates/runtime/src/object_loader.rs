//! Loading of position-independent ELF objects into executable memory.
//!
//! Sections are laid out in one mapping as three groups on pages of their own: code and far-call stubs (read and
//! execute), constants and the global offset table (read only), data (read and write). The whole image lies
//! within the reach of the small code model; functions outside it ([`crate::externals`]) are reached through
//! stubs. No page is ever writable and executable at once.

use crate::abi::KernelFn;
use crate::externals::external_address;
use crate::relocation::{Machine, Needs, Refusal};
use object::read::elf::ElfFile64;
use object::{
    Architecture, Endianness, Object, ObjectKind, ObjectSection, ObjectSymbol, RelocationFlags,
    RelocationTarget, SectionFlags, SectionIndex, SymbolIndex, SymbolSection, elf,
};
use std::collections::BTreeMap;

/// The largest image: everything in it must reach everything else with a signed 32-bit distance.
const MAX_IMAGE: u64 = 1 << 30;
/// The size of a slot in the global offset table.
const SLOT_BYTES: u64 = 8;

/// Why an object could not be loaded, or a symbol not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The bytes are not a well-formed ELF object.
    #[error("not a loadable object: {reason}; the bytes are damaged or not an ELF relocatable object")]
    Malformed {
        /// What the parser stumbled on.
        reason: String,
    },
    /// The object is for another processor.
    #[error("the object is for {found}, this machine is {host}; build it for this machine's target")]
    WrongMachine {
        /// The object's architecture.
        found: String,
        /// This machine's architecture.
        host: String,
    },
    /// The object has something the loader does not handle.
    #[error(
        "section {section}: {what} is not supported; build the object as position-independent code, code model small"
    )]
    Unsupported {
        /// The section with the problem.
        section: String,
        /// What is in it.
        what: String,
    },
    /// The object calls a function that kernels may not call.
    #[error(
        "undefined symbol `{name}`: kernels may call only memcpy, memmove, memset, memcmp and libm functions"
    )]
    UndefinedSymbol {
        /// The missing function.
        name: String,
    },
    /// A relocation's value does not fit its field, or the field is not in the section.
    #[error(
        "section {section}, offset {offset:#x}: relocation type {kind} {problem}; build the object as position-independent code, code model small"
    )]
    Relocation {
        /// The section the relocation is in.
        section: String,
        /// The field's offset in the section.
        offset: u64,
        /// The ELF relocation type.
        kind: u32,
        /// What went wrong.
        problem: &'static str,
    },
    /// The image is too large for the small code model.
    #[error(
        "the object needs {bytes} bytes of memory, more than the {MAX_IMAGE} an object may have; keep large constants in buffers"
    )]
    TooLarge {
        /// The size of the image.
        bytes: u64,
    },
    /// The system refused the memory, or to make it executable.
    #[error(
        "cannot {action} {bytes} bytes for the object: {reason}; check the memory limit and that executable mappings are allowed"
    )]
    Memory {
        /// What was tried.
        action: &'static str,
        /// The size of the image.
        bytes: usize,
        /// What the system said.
        reason: String,
    },
    /// The object has no such function.
    #[error("the object has no function `{name}`; it defines: {defined}")]
    NoSuchKernel {
        /// The name that was asked for.
        name: String,
        /// The functions there are.
        defined: String,
    },
}

fn malformed(error: object::Error) -> LoadError {
    LoadError::Malformed { reason: error.to_string() }
}

/// Machine code in executable memory, unmapped on drop: pointers from it must not outlive it.
#[derive(Debug)]
pub struct LoadedObject {
    memory: Mapping,
    symbols: BTreeMap<String, Symbol>,
}

#[derive(Debug, Clone, Copy)]
struct Symbol {
    /// From the start of the image.
    offset: usize,
    is_code: bool,
}

impl LoadedObject {
    /// Maps, relocates and makes executable an object for this machine.
    pub fn load(bytes: &[u8]) -> Result<LoadedObject, LoadError> {
        let file = parse(bytes)?;
        let machine = machine_of(&file)?;
        if Machine::host() != Some(machine) {
            return Err(LoadError::WrongMachine {
                found: format!("{:?}", file.architecture()),
                host: std::env::consts::ARCH.to_string(),
            });
        }
        let layout = Layout::plan(&file, machine, page_bytes())?;
        let mut memory = Mapping::new(layout.bytes as usize)?;
        let base = memory.start.addr() as u64;
        layout.fill(&file, memory.bytes_mut(), base)?;
        memory.protect(0, layout.constants_at as usize, libc::PROT_READ | libc::PROT_EXEC)?;
        let constants = (layout.data_at - layout.constants_at) as usize;
        memory.protect(layout.constants_at as usize, constants, libc::PROT_READ)?;
        memory.make_instructions_visible(layout.constants_at as usize);
        Ok(LoadedObject { symbols: layout.global_symbols(&file), memory })
    }

    /// The address of a global function or constant the object defines; valid while the object lives.
    pub fn symbol(&self, name: &str) -> Option<*const u8> {
        let symbol = self.symbols.get(name)?;
        // SAFETY: the offset of a defined symbol was checked to be in the image.
        Some(unsafe { self.memory.start.add(symbol.offset) })
    }

    /// The function `name` as a kernel.
    ///
    /// # Safety
    /// The function must have the signature of [`KernelFn`], and must not be called after the object is dropped.
    pub unsafe fn kernel(&self, name: &str) -> Result<KernelFn, LoadError> {
        match self.symbols.get(name) {
            Some(symbol) if symbol.is_code => {
                // SAFETY: the offset is in the executable part; the caller vouches for the signature.
                Ok(unsafe { std::mem::transmute::<*mut u8, KernelFn>(self.memory.start.add(symbol.offset)) })
            }
            _ => {
                let functions = self.symbols.iter().filter(|(_, symbol)| symbol.is_code);
                let defined = functions.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
                Err(LoadError::NoSuchKernel { name: name.to_string(), defined })
            }
        }
    }

    /// Bytes of memory the object occupies.
    pub fn memory_bytes(&self) -> usize {
        self.memory.len
    }
}

type File<'data> = ElfFile64<'data, Endianness>;

fn parse(bytes: &[u8]) -> Result<File<'_>, LoadError> {
    let file = File::parse(bytes).map_err(malformed)?;
    if file.kind() != ObjectKind::Relocatable {
        return Err(LoadError::Malformed { reason: format!("it is of kind {:?}", file.kind()) });
    }
    if !file.is_little_endian() {
        return Err(LoadError::Malformed { reason: "it is big-endian".to_string() });
    }
    Ok(file)
}

fn machine_of(file: &File) -> Result<Machine, LoadError> {
    match file.architecture() {
        Architecture::X86_64 => Ok(Machine::X86_64),
        Architecture::Aarch64 => Ok(Machine::Aarch64),
        other => Err(LoadError::WrongMachine {
            found: format!("{other:?}"),
            host: std::env::consts::ARCH.to_string(),
        }),
    }
}

/// Where everything goes, as offsets from the start of the image.
#[derive(Debug)]
struct Layout {
    machine: Machine,
    sections: BTreeMap<usize, Placed>,
    /// External functions that need a stub, and symbols that need a table slot.
    stubs: BTreeMap<usize, u64>,
    slots: BTreeMap<usize, u64>,
    constants_at: u64,
    data_at: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Placed {
    at: u64,
    bytes: u64,
    is_code: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Code,
    Constants,
    Data,
}

/// The group a section belongs to; `None` for sections that are not part of the image.
fn group_of<'data>(section: &impl ObjectSection<'data>, name: &str) -> Result<Option<Group>, LoadError> {
    let SectionFlags::Elf { sh_flags } = section.flags() else {
        return Ok(None);
    };
    // Unwind tables and notes are allocated, but kernels neither unwind nor read notes.
    if sh_flags & u64::from(elf::SHF_ALLOC) == 0 || name == ".eh_frame" || name.starts_with(".note") {
        return Ok(None);
    }
    if sh_flags & u64::from(elf::SHF_TLS) != 0 {
        return Err(unsupported(name, "thread-local storage"));
    }
    Ok(Some(if sh_flags & u64::from(elf::SHF_EXECINSTR) != 0 {
        if sh_flags & u64::from(elf::SHF_WRITE) != 0 {
            return Err(unsupported(name, "memory that is writable and executable"));
        }
        Group::Code
    } else if sh_flags & u64::from(elf::SHF_WRITE) != 0 {
        Group::Data
    } else {
        Group::Constants
    }))
}

fn unsupported(section: &str, what: &str) -> LoadError {
    LoadError::Unsupported { section: section.to_string(), what: what.to_string() }
}

impl Layout {
    fn plan(file: &File, machine: Machine, page: u64) -> Result<Layout, LoadError> {
        let mut layout = Layout {
            machine,
            sections: BTreeMap::new(),
            stubs: BTreeMap::new(),
            slots: BTreeMap::new(),
            constants_at: 0,
            data_at: 0,
            bytes: 0,
        };
        let mut grouped = Vec::new();
        for section in file.sections() {
            let name = section.name().map_err(malformed)?;
            if let Some(group) = group_of(&section, name)? {
                grouped.push((group, section));
            }
        }
        for (_, section) in &grouped {
            layout.collect_needs(file, section)?;
        }
        for group in [Group::Code, Group::Constants, Group::Data] {
            layout.align(page)?;
            match group {
                Group::Code => {}
                Group::Constants => layout.constants_at = layout.bytes,
                Group::Data => layout.data_at = layout.bytes,
            }
            for (_, section) in grouped.iter().filter(|(of, _)| *of == group) {
                let align = section.align().max(1);
                if align > page || !align.is_power_of_two() {
                    let name = section.name().map_err(malformed)?;
                    return Err(unsupported(name, &format!("alignment {align}")));
                }
                layout.align(align)?;
                let (at, bytes) = (layout.bytes, section.size());
                layout.grow(bytes)?;
                layout
                    .sections
                    .insert(section.index().0, Placed { at, bytes, is_code: group == Group::Code });
            }
            match group {
                Group::Code => {
                    layout.align(16)?;
                    let symbols: Vec<usize> = layout.stubs.keys().copied().collect();
                    for symbol in symbols {
                        layout.stubs.insert(symbol, layout.bytes);
                        layout.grow(machine.stub_bytes() as u64)?;
                    }
                }
                Group::Constants => {
                    layout.align(SLOT_BYTES)?;
                    let symbols: Vec<usize> = layout.slots.keys().copied().collect();
                    for symbol in symbols {
                        layout.slots.insert(symbol, layout.bytes);
                        layout.grow(SLOT_BYTES)?;
                    }
                }
                Group::Data => {}
            }
        }
        layout.align(page)?;
        layout.bytes = layout.bytes.max(page);
        Ok(layout)
    }

    fn align(&mut self, to: u64) -> Result<(), LoadError> {
        let padding = self.bytes.next_multiple_of(to) - self.bytes;
        self.grow(padding)
    }

    fn grow(&mut self, by: u64) -> Result<(), LoadError> {
        self.bytes = self.bytes.saturating_add(by);
        if self.bytes > MAX_IMAGE { Err(LoadError::TooLarge { bytes: self.bytes }) } else { Ok(()) }
    }

    /// Notes which stubs and table slots the relocations of a section will use.
    fn collect_needs<'data>(
        &mut self,
        file: &File,
        section: &impl ObjectSection<'data>,
    ) -> Result<(), LoadError> {
        for relocation in section.relocations() {
            let (_, kind, symbol) = relocation_parts(section, relocation)?;
            let needs = self.machine.needs(kind).ok_or_else(|| {
                unsupported(section.name().unwrap_or("?"), &format!("relocation type {kind}"))
            })?;
            let external = file.symbol_by_index(symbol).map_err(malformed)?.is_undefined();
            if needs == Needs::Slot || (needs == Needs::Near && external) {
                self.slots.insert(symbol.0, 0);
            }
            if needs == Needs::Near && external {
                self.stubs.insert(symbol.0, 0);
            }
        }
        Ok(())
    }

    /// Copies the sections, builds stubs and table, and applies all relocations for an image at `base`.
    fn fill(&self, file: &File, image: &mut [u8], base: u64) -> Result<(), LoadError> {
        for section in file.sections() {
            if let Some(placed) = self.sections.get(&section.index().0) {
                let data = section.data().map_err(malformed)?;
                let place = part(image, placed.at, placed.bytes)?;
                let place = place.get_mut(..data.len()).ok_or_else(|| outside("section data"))?;
                place.copy_from_slice(data);
            }
        }
        for (&symbol, &at) in &self.slots {
            let address = self.address(file, SymbolIndex(symbol), base)?;
            part(image, at, SLOT_BYTES)?.copy_from_slice(&address.to_le_bytes());
        }
        for (symbol, &at) in &self.stubs {
            let slot = self.slots.get(symbol).ok_or_else(|| outside("a stub's slot"))?;
            let code = self.machine.stub(base + at, base + slot);
            let code = code.map_err(|refusal| relocation_error("stubs", at, 0, &refusal))?;
            part(image, at, code.len() as u64)?.copy_from_slice(&code);
        }
        for section in file.sections() {
            if let Some(placed) = self.sections.get(&section.index().0) {
                self.relocate(file, &section, *placed, image, base)?;
            }
        }
        Ok(())
    }

    fn relocate<'data>(
        &self,
        file: &File,
        section: &impl ObjectSection<'data>,
        placed: Placed,
        image: &mut [u8],
        base: u64,
    ) -> Result<(), LoadError> {
        for (offset, relocation) in section.relocations() {
            let addend = relocation.addend();
            let (offset, kind, symbol) = relocation_parts(section, (offset, relocation))?;
            let special = match self.machine.needs(kind) {
                Some(Needs::Slot) => self.slots.get(&symbol.0),
                Some(Needs::Near) => self.stubs.get(&symbol.0),
                _ => None,
            };
            let target = match special {
                Some(at) => base + at,
                None => self.address(file, symbol, base)?,
            };
            let place = part(image, placed.at, placed.bytes)?;
            self.machine
                .apply(kind, place, base + placed.at, offset, target, addend)
                .map_err(|refusal| relocation_error(section.name().unwrap_or("?"), offset, kind, &refusal))?;
        }
        Ok(())
    }

    /// The address of a symbol: in the image, absolute, or of an external function.
    fn address(&self, file: &File, index: SymbolIndex, base: u64) -> Result<u64, LoadError> {
        let symbol = file.symbol_by_index(index).map_err(malformed)?;
        let name = || String::from_utf8_lossy(symbol.name_bytes().unwrap_or(b"?")).into_owned();
        match symbol.section() {
            SymbolSection::Section(SectionIndex(section)) => match self.sections.get(&section) {
                Some(placed) if symbol.address() <= placed.bytes => Ok(base + placed.at + symbol.address()),
                Some(_) => Err(outside(&format!("symbol `{}`", name()))),
                None => Err(unsupported(&format!("number {section}"), "a reference into it")),
            },
            SymbolSection::Absolute => Ok(symbol.address()),
            SymbolSection::Undefined => {
                external_address(&name()).ok_or_else(|| LoadError::UndefinedSymbol { name: name() })
            }
            _ => Err(unsupported("symbols", &format!("the kind of symbol `{}`", name()))),
        }
    }

    fn global_symbols(&self, file: &File) -> BTreeMap<String, Symbol> {
        let mut symbols = BTreeMap::new();
        for symbol in file.symbols().filter(|symbol| symbol.is_definition() && symbol.is_global()) {
            let placed = symbol.section_index().and_then(|index| self.sections.get(&index.0));
            if let (Some(placed), Ok(name)) = (placed, symbol.name())
                && symbol.address() < placed.bytes
            {
                let offset = (placed.at + symbol.address()) as usize;
                symbols.insert(name.to_string(), Symbol { offset, is_code: placed.is_code });
            }
        }
        symbols
    }
}

fn outside(what: &str) -> LoadError {
    LoadError::Malformed { reason: format!("{what} lies outside its section") }
}

fn part(image: &mut [u8], at: u64, bytes: u64) -> Result<&mut [u8], LoadError> {
    let end = at.saturating_add(bytes) as usize;
    image.get_mut(at as usize..end).ok_or_else(|| outside("a section"))
}

/// Offset, ELF type and symbol of a relocation.
fn relocation_parts<'data>(
    section: &impl ObjectSection<'data>,
    (offset, relocation): (u64, object::Relocation),
) -> Result<(u64, u32, SymbolIndex), LoadError> {
    let name = section.name().unwrap_or("?");
    match (relocation.flags(), relocation.target()) {
        (RelocationFlags::Elf { r_type }, RelocationTarget::Symbol(symbol)) => Ok((offset, r_type, symbol)),
        _ => Err(unsupported(name, &format!("the relocation without a symbol at offset {offset:#x}"))),
    }
}

fn relocation_error(section: &str, offset: u64, kind: u32, refusal: &Refusal) -> LoadError {
    let problem = match refusal {
        Refusal::Unsupported => "is not supported",
        Refusal::OutOfRange => "does not fit its field",
        Refusal::OutOfSection => "lies outside the section",
    };
    LoadError::Relocation { section: section.to_string(), offset, kind, problem }
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(page).ok().filter(|page| page.is_power_of_two()).unwrap_or(4096)
}

/// An anonymous private mapping.
#[derive(Debug)]
struct Mapping {
    start: *mut u8,
    len: usize,
}

// SAFETY: after loading the mapping is not written by Rust code any more; generated code that has writable data
// answers for its own synchronisation, as any C function does.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(len: usize) -> Result<Mapping, LoadError> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        #[cfg(target_os = "linux")]
        let flags = flags | libc::MAP_POPULATE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(memory_error("map", len));
        }
        Ok(Mapping { start: start.cast(), len })
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is readable, writable until `protect`, zeroed, and exclusively ours.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    fn protect(&mut self, at: usize, len: usize, protection: i32) -> Result<(), LoadError> {
        if len == 0 {
            return Ok(());
        }
        assert!(at.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: the range is page-aligned by the layout and inside the mapping, which nobody refers to yet.
        if unsafe { libc::mprotect(self.start.add(at).cast(), len, protection) } != 0 {
            return Err(memory_error("protect", self.len));
        }
        Ok(())
    }

    /// Lets the instruction fetch see the code that was written as data.
    fn make_instructions_visible(&self, len: usize) {
        #[cfg(target_arch = "aarch64")]
        {
            // The smallest line the architecture allows is a safe step for any processor.
            const LINE: usize = 16;
            let (start, end) = (self.start.addr(), self.start.addr() + len);
            for line in (start..end).step_by(LINE) {
                // SAFETY: cleans a data cache line of our own mapping.
                unsafe { std::arch::asm!("dc cvau, {0}", in(reg) line, options(nostack)) };
            }
            // SAFETY: a barrier.
            unsafe { std::arch::asm!("dsb ish", options(nostack)) };
            for line in (start..end).step_by(LINE) {
                // SAFETY: invalidates an instruction cache line of our own mapping.
                unsafe { std::arch::asm!("ic ivau, {0}", in(reg) line, options(nostack)) };
            }
            // SAFETY: barriers.
            unsafe { std::arch::asm!("dsb ish", "isb", options(nostack)) };
        }
        #[cfg(not(target_arch = "aarch64"))]
        let _ = len;
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone; users of its pointers promised not to outlive the object.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

fn memory_error(action: &'static str, bytes: usize) -> LoadError {
    LoadError::Memory { action, bytes, reason: std::io::Error::last_os_error().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    const TEXT: &str = r#"
@table = internal constant [4 x float] [float 1.0, float 2.0, float 4.0, float 8.0]
@state = global i64 7
declare ptr @memset(ptr, i32, i64)
declare float @expf(float)
define float @kernel(ptr %out, i64 %i) {
  %r = call ptr @memset(ptr %out, i32 0, i64 64)
  %p = getelementptr float, ptr @table, i64 %i
  %x = load float, ptr %p
  %s = load i64, ptr @state
  %t = add i64 %s, 1
  store i64 %t, ptr @state
  %y = call float @expf(float %x)
  ret float %y
}
"#;

    /// Compiles the text above for a triple; `None`, with a printed reason, where there is no LLVM.
    fn llc(triple: &str) -> Option<Vec<u8>> {
        for program in ["llc-19", "llc"] {
            let mut command = Command::new(program);
            command.args(["-filetype=obj", "-relocation-model=pic", "-o", "-", "-"]);
            command.arg(format!("-mtriple={triple}")).stdin(Stdio::piped()).stdout(Stdio::piped());
            if let Ok(mut child) = command.spawn() {
                child.stdin.take()?.write_all(TEXT.as_bytes()).ok()?;
                let output = child.wait_with_output().ok()?;
                assert!(output.status.success());
                return Some(output.stdout);
            }
        }
        println!("skipped: no `llc` on this machine");
        None
    }

    #[test]
    fn llvm_objects_of_both_machines_link_at_any_base() {
        for (triple, machine) in
            [("x86_64-linux-gnu", Machine::X86_64), ("aarch64-linux-gnu", Machine::Aarch64)]
        {
            let Some(bytes) = llc(triple) else { return };
            let file = parse(&bytes).unwrap();
            assert_eq!(machine_of(&file).unwrap(), machine);
            let layout = Layout::plan(&file, machine, 4096).unwrap();
            assert_eq!(layout.stubs.len(), 2, "memset and expf");
            let mut image = vec![0; layout.bytes as usize];
            for base in [0x10_0000, 0x7fff_1234_5000] {
                layout.fill(&file, &mut image, base).unwrap();
                let symbols = layout.global_symbols(&file);
                let state = symbols["state"].offset;
                assert_eq!(image[state..state + 8], 7u64.to_le_bytes());
                assert!(symbols["kernel"].is_code && !symbols["state"].is_code);
                let slots: Vec<u64> = layout
                    .slots
                    .values()
                    .map(|&at| u64::from_le_bytes(image[at as usize..][..8].try_into().unwrap()))
                    .collect();
                for wanted in [
                    base + state as u64,
                    external_address("expf").unwrap(),
                    external_address("memset").unwrap(),
                ] {
                    assert!(slots.contains(&wanted), "{slots:x?} lacks {wanted:x}");
                }
            }
        }
    }

    #[test]
    fn objects_for_another_machine_are_refused() {
        let other = match Machine::host() {
            Some(Machine::X86_64) => "aarch64-linux-gnu",
            _ => "x86_64-linux-gnu",
        };
        let Some(bytes) = llc(other) else { return };
        let error = LoadedObject::load(&bytes).unwrap_err();
        assert!(matches!(error, LoadError::WrongMachine { .. }), "{error}");
    }
}
