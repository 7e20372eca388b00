//! LLVM target machines, one of each kind for each thread that compiles.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::rc::Rc;
use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine, TargetTriple,
};

use crate::isa::Isa;

thread_local! {
    static MACHINES: RefCell<HashMap<Isa, Rc<TargetMachine>>> = RefCell::default();
}

static INITIALISED: Once = Once::new();

/// The calling thread's machine for an instruction set; making one takes longer than compiling a small kernel.
pub fn machine(isa: &Isa) -> Result<Rc<TargetMachine>, String> {
    INITIALISED.call_once(|| {
        let config = InitializationConfig::default();
        LlvmTarget::initialize_x86(&config);
        LlvmTarget::initialize_aarch64(&config);
        set_options();
    });
    MACHINES.with_borrow_mut(|machines| {
        if let Some(m) = machines.get(isa) {
            return Ok(m.clone());
        }
        let triple = TargetTriple::create(&isa.triple);
        let target = LlvmTarget::from_triple(&triple).map_err(|e| e.to_string())?;
        let machine = target
            .create_target_machine(
                &triple,
                &isa.cpu,
                &isa.features,
                OptimizationLevel::Default,
                RelocMode::PIC,
                CodeModel::Small,
            )
            .ok_or_else(|| format!("no target machine for {}", isa.triple))?;
        let machine = Rc::new(machine);
        machines.insert(isa.clone(), machine.clone());
        Ok(machine)
    })
}

/// What LLVM is told to leave out. All of it was measured to cost much and to change no inner loop of a register tile.
///
/// The emitted order of instructions is the order wanted, so neither scheduler may change it: the machine scheduler cost a
/// fifth of the time, and bottom-up, its usual direction, it hoists the loads of later iterations above the multiply-adds
/// of earlier ones, so that tiles that fill the register file spill. Addresses are emitted loop by loop, which loop
/// strength reduction and the preparation for code generation would do again; the latter would also join the blocks into
/// which the emitter cuts unrolled reductions. The others look for what the emitter never writes.
const OPTIONS: [&CStr; 11] = [
    c"talweg",
    c"-enable-misched=false",
    c"-pre-RA-sched=source",
    c"-disable-lsr",
    c"-disable-cgp",
    c"-disable-constant-hoisting",
    c"-disable-mergeicmps",
    c"-disable-partial-libcall-inlining",
    c"-disable-early-taildup",
    c"-disable-x86-domain-reassignment",
    c"-x86-cmov-converter=false",
];

fn set_options() {
    let arguments = OPTIONS.map(CStr::as_ptr);
    // SAFETY: the pointers are of strings with an end that live forever; LLVM's options are only set here, once, before
    // the first target machine is made, and all of them exist in the LLVM this crate is built with.
    unsafe {
        inkwell::llvm_sys::support::LLVMParseCommandLineOptions(
            arguments.len() as i32,
            arguments.as_ptr(),
            std::ptr::null(),
        );
    }
}
