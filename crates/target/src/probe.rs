//! Measured limits of this machine: peak multiply-adds and the bandwidth of each level of memory.
//!
//! The loops are assembly, so that they are the same in every build profile, and they are what generated kernels
//! are compared with: no kernel can beat the first, and no elementwise kernel should fall short of the second.

use crate::affinity::{allowed_cores, pin_to_core};
use crate::description::{Isa, Target};
use serde::{Deserialize, Serialize};
use std::alloc::Layout;
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// Independent accumulators of the multiply-add loop, more than latency times ports on any current core.
#[cfg(target_arch = "x86_64")]
const ACCUMULATORS: u64 = 12;
#[cfg(not(target_arch = "x86_64"))]
const ACCUMULATORS: u64 = 24;
/// Length of one window of [`measure_peak`]: shorter than a time slice, so that on a busy machine some windows
/// pass undisturbed.
const WINDOW: Duration = Duration::from_millis(1);
/// Windows of [`measure_peak`]; the best counts.
const WINDOWS: usize = 100;
/// Length of the quick [`core_probe`].
const PROBE: Duration = Duration::from_micros(150);
/// Bytes one round of the bandwidth loops handles.
const ROUND: usize = 512;

/// Bandwidth of one level of memory, one thread, in gigabytes (10^9) per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelBandwidth {
    /// `L1`, `L2`, `L3` or `DRAM`.
    pub level: String,
    /// The working set the loops ran over.
    pub bytes: u64,
    /// Reading the whole set.
    pub read_gbs: f64,
    /// Writing the whole set, with ordinary stores.
    pub write_gbs: f64,
    /// Copying one half to the other, bytes read and bytes written both counted: the limit of an elementwise
    /// kernel with one input.
    pub copy_gbs: f64,
}

/// The best rate of f32 multiply-adds that `threads` threads reach together, in GFLOP/s.
///
/// Each thread is pinned to a core of its own as far as there are any. Takes about 0.1 s.
pub fn measure_peak(threads: usize) -> f64 {
    let threads = threads.max(1);
    let isa = usable_isa();
    let rounds = rounds_for(isa, WINDOW);
    let cores = allowed_cores();
    let barrier = Barrier::new(threads);
    let times: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, cores) = (&barrier, &cores);
                scope.spawn(move || {
                    if let Some(&core) = cores.get(thread) {
                        // An unpinned thread still measures, only with more noise.
                        let _ = pin_to_core(core);
                    }
                    multiply_add(isa, rounds);
                    let window = || {
                        barrier.wait();
                        let start = Instant::now();
                        multiply_add(isa, rounds);
                        start.elapsed().as_secs_f64().max(1e-9)
                    };
                    (0..WINDOWS).map(|_| window()).collect()
                })
            })
            .collect();
        handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
    });
    let flops = (flops_per_round(isa) * rounds) as f64 * 1e-9;
    // Each thread by its own clock, since they leave the barrier one after the other.
    let rate = |window: usize| times.iter().map(|thread| flops / thread[window]).sum::<f64>();
    (0..WINDOWS).map(rate).fold(0.0, f64::max)
}

/// How fast this core is for this thread at this moment, over about 150 us, larger being faster: a cheap check, next
/// to a timing sample, that the thread has the core for itself.
///
/// The loop fills every slot of the core's front end: multiply-adds on all their ports and instructions that do nothing
/// in between. Whatever the other hardware thread of the core does takes slots away, even where it leaves the
/// multiply-adds alone, and a kernel that loads while it computes would suffer.
pub fn core_probe() -> f64 {
    let isa = usable_isa();
    let rounds = rounds_for(isa, PROBE);
    let start = Instant::now();
    fill_core(isa, rounds);
    (flops_per_round(isa) * rounds) as f64 / start.elapsed().as_secs_f64().max(1e-9) * 1e-9
}

/// The bandwidth of each level of memory that this machine has, one thread. Takes about one second.
///
/// The sets are half of L1, half of L2, four times L2 (at most 16 MiB and half of L3) and 256 MiB. Where the last
/// level is larger than that, as on large shared servers, the DRAM row is partly served from it.
pub fn measure_bandwidth() -> Vec<LevelBandwidth> {
    working_sets(&Target::host())
        .into_iter()
        .filter_map(|(level, bytes)| measure_level(level, bytes))
        .collect()
}

/// The levels of a machine and the working set that stands for each.
pub fn working_sets(target: &Target) -> Vec<(&'static str, u64)> {
    let mut sets = vec![("L1", target.l1d / 2), ("L2", target.l2 / 2)];
    let third = (4 * target.l2).clamp(4 << 20, 16 << 20).min(target.l3 / 2);
    if third > target.l2 {
        sets.push(("L3", third));
    }
    sets.push(("DRAM", 256 << 20));
    sets.into_iter().map(|(level, bytes)| (level, bytes.max(4096) / 4096 * 4096)).collect()
}

fn measure_level(level: &str, bytes: u64) -> Option<LevelBandwidth> {
    let isa = usable_isa();
    let mut memory = Memory::new(usize::try_from(bytes).ok()?)?;
    let half = memory.len / 2;
    // Windows under a millisecond where the set allows, so that some pass undisturbed; the best counts.
    let passes = ((16 << 20) / memory.len).max(1) as u64;
    let windows = if memory.len > 16 << 20 { 4 } else { 20 };
    let mut best = [0f64; 3];
    for _ in 0..windows {
        for (best, work) in best.iter_mut().zip([Sweep::Read, Sweep::Write, Sweep::Copy]) {
            let start = Instant::now();
            match work {
                Sweep::Copy => memory.sweep(isa, work, half, passes),
                Sweep::Read | Sweep::Write => memory.sweep(isa, work, memory.len, passes),
            }
            let rate = (memory.len as u64 * passes) as f64 / start.elapsed().as_secs_f64().max(1e-9) * 1e-9;
            *best = best.max(rate);
        }
    }
    let [read_gbs, write_gbs, copy_gbs] = best;
    Some(LevelBandwidth { level: level.to_string(), bytes: memory.len as u64, read_gbs, write_gbs, copy_gbs })
}

/// The instruction set the loops may use here; `None` where they are not written for this machine.
fn usable_isa() -> Option<Isa> {
    static ISA: OnceLock<Option<Isa>> = OnceLock::new();
    *ISA.get_or_init(|| {
        let host = Target::host();
        host.can_run_here().ok().map(|()| host.isa)
    })
}

fn flops_per_round(isa: Option<Isa>) -> u64 {
    isa.map_or(2, |isa| 2 * ACCUMULATORS * u64::from(isa.vector_bits() / 32))
}

/// Rounds that take about that long, at two multiply-adds per cycle and 3 GHz.
fn rounds_for(isa: Option<Isa>, time: Duration) -> u64 {
    let cycles = (time.as_nanos() as u64) * 3;
    if isa.is_some() { (cycles / (ACCUMULATORS / 2)).max(1) } else { (cycles / 4).max(1) }
}

/// Runs rounds of one multiply-add on each accumulator, with idle instructions between them.
fn fill_core(isa: Option<Isa>, rounds: u64) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `usable_isa` found the features.
        Some(Isa::Avx512) => unsafe { fill_core_avx512(rounds.max(1)) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `usable_isa` found the features.
        Some(Isa::Avx2) => unsafe { fill_core_avx2(rounds.max(1)) },
        _ => multiply_add(isa, rounds),
    }
}

/// Runs rounds of one multiply-add on each accumulator.
fn multiply_add(isa: Option<Isa>, rounds: u64) {
    let rounds = rounds.max(1);
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `usable_isa` found the features.
        Some(Isa::Avx512) => unsafe { multiply_add_avx512(rounds) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `usable_isa` found the features.
        Some(Isa::Avx2) => unsafe { multiply_add_avx2(rounds) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: every 64-bit Arm processor has NEON.
        Some(Isa::Neon) => unsafe { multiply_add_neon(rounds) },
        _ => {
            let mut sum = 0f32;
            for _ in 0..rounds {
                sum = std::hint::black_box(sum * 0.5 + 0.25);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! x86_multiply_add {
    ($name:ident, $feature:literal, $vector:literal, $between:literal) => {
        #[target_feature(enable = $feature)]
        fn $name(rounds: u64) {
            // SAFETY: touches only the registers it names; the feature is enabled.
            unsafe {
                std::arch::asm!(
                    "vmovd xmm14, {half:e}",
                    concat!("vbroadcastss ", $vector, "14, xmm14"),
                    concat!("vmovaps ", $vector, "15, ", $vector, "14"),
                    "vxorps xmm0, xmm0, xmm0",
                    "vxorps xmm1, xmm1, xmm1",
                    "vxorps xmm2, xmm2, xmm2",
                    "vxorps xmm3, xmm3, xmm3",
                    "vxorps xmm4, xmm4, xmm4",
                    "vxorps xmm5, xmm5, xmm5",
                    "vxorps xmm6, xmm6, xmm6",
                    "vxorps xmm7, xmm7, xmm7",
                    "vxorps xmm8, xmm8, xmm8",
                    "vxorps xmm9, xmm9, xmm9",
                    "vxorps xmm10, xmm10, xmm10",
                    "vxorps xmm11, xmm11, xmm11",
                    ".p2align 5",
                    "2:",
                    concat!("vfmadd231ps ", $vector, "0, ", $vector, "14, ", $vector, "15"),
                    concat!("vfmadd231ps ", $vector, "1, ", $vector, "14, ", $vector, "15"),
                    $between,
                    concat!("vfmadd231ps ", $vector, "2, ", $vector, "14, ", $vector, "15"),
                    concat!("vfmadd231ps ", $vector, "3, ", $vector, "14, ", $vector, "15"),
                    $between,
                    concat!("vfmadd231ps ", $vector, "4, ", $vector, "14, ", $vector, "15"),
                    concat!("vfmadd231ps ", $vector, "5, ", $vector, "14, ", $vector, "15"),
                    $between,
                    concat!("vfmadd231ps ", $vector, "6, ", $vector, "14, ", $vector, "15"),
                    concat!("vfmadd231ps ", $vector, "7, ", $vector, "14, ", $vector, "15"),
                    $between,
                    concat!("vfmadd231ps ", $vector, "8, ", $vector, "14, ", $vector, "15"),
                    concat!("vfmadd231ps ", $vector, "9, ", $vector, "14, ", $vector, "15"),
                    $between,
                    concat!("vfmadd231ps ", $vector, "10, ", $vector, "14, ", $vector, "15"),
                    concat!("vfmadd231ps ", $vector, "11, ", $vector, "14, ", $vector, "15"),
                    $between,
                    "dec {rounds}",
                    "jnz 2b",
                    "vzeroupper",
                    rounds = inout(reg) rounds => _,
                    half = in(reg) 0.5f32.to_bits(),
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack, nomem)
                );
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
x86_multiply_add!(multiply_add_avx512, "avx512f", "zmm", "");
#[cfg(target_arch = "x86_64")]
x86_multiply_add!(multiply_add_avx2, "avx2,fma", "ymm", "");
#[cfg(target_arch = "x86_64")]
x86_multiply_add!(fill_core_avx512, "avx512f", "zmm", "nop\nnop\nnop\nnop");
#[cfg(target_arch = "x86_64")]
x86_multiply_add!(fill_core_avx2, "avx2,fma", "ymm", "nop\nnop\nnop\nnop");

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "neon")]
fn multiply_add_neon(rounds: u64) {
    // SAFETY: touches only the registers it names; the feature is enabled.
    unsafe {
        std::arch::asm!(
            "fmov v30.4s, #0.5",
            "fmov v31.4s, #0.5",
            "2:",
            "fmla v0.4s, v30.4s, v31.4s", "fmla v1.4s, v30.4s, v31.4s", "fmla v2.4s, v30.4s, v31.4s",
            "fmla v3.4s, v30.4s, v31.4s", "fmla v4.4s, v30.4s, v31.4s", "fmla v5.4s, v30.4s, v31.4s",
            "fmla v6.4s, v30.4s, v31.4s", "fmla v7.4s, v30.4s, v31.4s", "fmla v8.4s, v30.4s, v31.4s",
            "fmla v9.4s, v30.4s, v31.4s", "fmla v10.4s, v30.4s, v31.4s", "fmla v11.4s, v30.4s, v31.4s",
            "fmla v12.4s, v30.4s, v31.4s", "fmla v13.4s, v30.4s, v31.4s", "fmla v14.4s, v30.4s, v31.4s",
            "fmla v15.4s, v30.4s, v31.4s", "fmla v16.4s, v30.4s, v31.4s", "fmla v17.4s, v30.4s, v31.4s",
            "fmla v18.4s, v30.4s, v31.4s", "fmla v19.4s, v30.4s, v31.4s", "fmla v20.4s, v30.4s, v31.4s",
            "fmla v21.4s, v30.4s, v31.4s", "fmla v22.4s, v30.4s, v31.4s", "fmla v23.4s, v30.4s, v31.4s",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            rounds = inout(reg) rounds => _,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _,
            out("v6") _, out("v7") _, out("v8") _, out("v9") _, out("v10") _, out("v11") _,
            out("v12") _, out("v13") _, out("v14") _, out("v15") _, out("v16") _, out("v17") _,
            out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            out("v30") _, out("v31") _,
            options(nostack, nomem)
        );
    }
}

/// One way to go over memory.
#[derive(Debug, Clone, Copy)]
enum Sweep {
    Read,
    Write,
    Copy,
}

/// Page-aligned memory, every page touched.
struct Memory {
    start: *mut u8,
    len: usize,
    layout: Layout,
}

impl Memory {
    /// At least two rounds of memory, `bytes` rounded to whole rounds in each half.
    fn new(bytes: usize) -> Option<Memory> {
        let len = bytes.max(2 * ROUND).next_multiple_of(2 * ROUND);
        let align = if len >= 2 << 20 { 2 << 20 } else { 4096 };
        let layout = Layout::from_size_align(len + COPY_SKEW, align).ok()?;
        // SAFETY: the size is not zero.
        let start = unsafe { std::alloc::alloc(layout) };
        if start.is_null() {
            return None;
        }
        #[cfg(target_os = "linux")]
        if align > 4096 {
            // SAFETY: the range is inside the allocation. Failure only means ordinary pages.
            unsafe { libc::madvise(start.cast(), len, libc::MADV_HUGEPAGE) };
        }
        // SAFETY: the allocation has this size.
        unsafe { start.write_bytes(1, len + COPY_SKEW) };
        Some(Memory { start, len, layout })
    }

    /// Goes `passes` times over the first `bytes` bytes; a copy writes as many behind them.
    fn sweep(&mut self, isa: Option<Isa>, work: Sweep, bytes: usize, passes: u64) {
        let is_copy = matches!(work, Sweep::Copy);
        assert!(
            bytes.is_multiple_of(ROUND) && bytes > 0 && if is_copy { 2 * bytes } else { bytes } <= self.len
        );
        // SAFETY: inside the allocation, which is longer than `len` by the skew.
        let to = unsafe { self.start.add(if is_copy { bytes + COPY_SKEW } else { 0 }) };
        match (isa, work) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the ranges are inside the allocation, and `usable_isa` found the features.
            (Some(Isa::Avx512), Sweep::Read) => unsafe { read_avx512(self.start, to, bytes, passes) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Some(Isa::Avx512), Sweep::Write) => unsafe { write_avx512(self.start, to, bytes, passes) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Some(Isa::Avx512), Sweep::Copy) => unsafe { copy_avx512(self.start, to, bytes, passes) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Some(Isa::Avx2), Sweep::Read) => unsafe { read_avx2(self.start, to, bytes, passes) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Some(Isa::Avx2), Sweep::Write) => unsafe { write_avx2(self.start, to, bytes, passes) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            (Some(Isa::Avx2), Sweep::Copy) => unsafe { copy_avx2(self.start, to, bytes, passes) },
            // SAFETY: the ranges are inside the allocation and do not overlap.
            _ => unsafe { portable_sweep(work, self.start, to, bytes, passes) },
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with exactly this layout.
        unsafe { std::alloc::dealloc(self.start, self.layout) };
    }
}

/// Keeps the two streams of a copy off the same offset within a page, where loads wait for unrelated stores.
const COPY_SKEW: usize = 2048;

/// The loops where there is no assembly for the machine; the compiler vectorises them in optimised builds.
///
/// # Safety
/// `bytes` bytes are readable at `from` and writable at `to`; for a copy the ranges do not overlap.
unsafe fn portable_sweep(work: Sweep, from: *mut u8, to: *mut u8, bytes: usize, passes: u64) {
    for pass in 0..passes {
        match work {
            Sweep::Read => {
                // SAFETY: readable and aligned to a page; promised by the caller.
                let words = unsafe { std::slice::from_raw_parts(from.cast::<u64>(), bytes / 8) };
                std::hint::black_box(words.iter().fold(pass, |sum, word| sum ^ word));
            }
            // SAFETY: writable; promised by the caller.
            Sweep::Write => unsafe { std::hint::black_box(to).write_bytes(pass as u8, bytes) },
            // SAFETY: promised by the caller.
            Sweep::Copy => unsafe { std::hint::black_box(to).copy_from_nonoverlapping(from, bytes) },
        }
    }
}

/// One sweep in assembly: `$body` handles 512 bytes at `{at}` (and `{at} + {gap}` for the written stream).
#[cfg(target_arch = "x86_64")]
macro_rules! x86_sweep {
    ($name:ident, $feature:literal, $($body:expr),*) => {
        #[target_feature(enable = $feature)]
        unsafe fn $name(from: *mut u8, to: *mut u8, bytes: usize, passes: u64) {
            let gap = to.addr().wrapping_sub(from.addr());
            // SAFETY: reads and writes only the ranges the caller vouches for, and the registers it names.
            unsafe {
                std::arch::asm!(
                    "vxorps xmm0, xmm0, xmm0",
                    "vxorps xmm1, xmm1, xmm1",
                    "3:",
                    "mov {at}, {from}",
                    ".p2align 5",
                    "2:",
                    $($body,)*
                    "add {at}, 512",
                    "cmp {at}, {end}",
                    "jb 2b",
                    "dec {passes}",
                    "jnz 3b",
                    "vzeroupper",
                    "/* {gap} */",
                    at = out(reg) _,
                    from = in(reg) from,
                    end = in(reg) from.wrapping_add(bytes),
                    gap = in(reg) gap,
                    passes = inout(reg) passes => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack)
                );
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
x86_sweep!(
    read_avx512,
    "avx512f",
    "vmovaps zmm0, [{at}]",
    "vmovaps zmm1, [{at} + 64]",
    "vmovaps zmm2, [{at} + 128]",
    "vmovaps zmm3, [{at} + 192]",
    "vmovaps zmm4, [{at} + 256]",
    "vmovaps zmm5, [{at} + 320]",
    "vmovaps zmm6, [{at} + 384]",
    "vmovaps zmm7, [{at} + 448]"
);
#[cfg(target_arch = "x86_64")]
x86_sweep!(
    write_avx512,
    "avx512f",
    "vmovaps [{at}], zmm0",
    "vmovaps [{at} + 64], zmm0",
    "vmovaps [{at} + 128], zmm0",
    "vmovaps [{at} + 192], zmm0",
    "vmovaps [{at} + 256], zmm0",
    "vmovaps [{at} + 320], zmm0",
    "vmovaps [{at} + 384], zmm0",
    "vmovaps [{at} + 448], zmm0"
);
#[cfg(target_arch = "x86_64")]
x86_sweep!(
    copy_avx512,
    "avx512f",
    "vmovaps zmm0, [{at}]",
    "vmovaps zmm1, [{at} + 64]",
    "vmovaps zmm2, [{at} + 128]",
    "vmovaps zmm3, [{at} + 192]",
    "vmovaps [{at} + {gap}], zmm0",
    "vmovaps [{at} + {gap} + 64], zmm1",
    "vmovaps [{at} + {gap} + 128], zmm2",
    "vmovaps [{at} + {gap} + 192], zmm3",
    "vmovaps zmm4, [{at} + 256]",
    "vmovaps zmm5, [{at} + 320]",
    "vmovaps zmm6, [{at} + 384]",
    "vmovaps zmm7, [{at} + 448]",
    "vmovaps [{at} + {gap} + 256], zmm4",
    "vmovaps [{at} + {gap} + 320], zmm5",
    "vmovaps [{at} + {gap} + 384], zmm6",
    "vmovaps [{at} + {gap} + 448], zmm7"
);
#[cfg(target_arch = "x86_64")]
x86_sweep!(
    read_avx2,
    "avx2",
    "vmovaps ymm0, [{at}]",
    "vmovaps ymm1, [{at} + 32]",
    "vmovaps ymm2, [{at} + 64]",
    "vmovaps ymm3, [{at} + 96]",
    "vmovaps ymm4, [{at} + 128]",
    "vmovaps ymm5, [{at} + 160]",
    "vmovaps ymm6, [{at} + 192]",
    "vmovaps ymm7, [{at} + 224]",
    "vmovaps ymm8, [{at} + 256]",
    "vmovaps ymm9, [{at} + 288]",
    "vmovaps ymm10, [{at} + 320]",
    "vmovaps ymm11, [{at} + 352]",
    "vmovaps ymm12, [{at} + 384]",
    "vmovaps ymm13, [{at} + 416]",
    "vmovaps ymm14, [{at} + 448]",
    "vmovaps ymm15, [{at} + 480]"
);
#[cfg(target_arch = "x86_64")]
x86_sweep!(
    write_avx2,
    "avx2",
    "vmovaps [{at}], ymm0",
    "vmovaps [{at} + 32], ymm0",
    "vmovaps [{at} + 64], ymm0",
    "vmovaps [{at} + 96], ymm0",
    "vmovaps [{at} + 128], ymm0",
    "vmovaps [{at} + 160], ymm0",
    "vmovaps [{at} + 192], ymm0",
    "vmovaps [{at} + 224], ymm0",
    "vmovaps [{at} + 256], ymm0",
    "vmovaps [{at} + 288], ymm0",
    "vmovaps [{at} + 320], ymm0",
    "vmovaps [{at} + 352], ymm0",
    "vmovaps [{at} + 384], ymm0",
    "vmovaps [{at} + 416], ymm0",
    "vmovaps [{at} + 448], ymm0",
    "vmovaps [{at} + 480], ymm0"
);
#[cfg(target_arch = "x86_64")]
x86_sweep!(
    copy_avx2,
    "avx2",
    "vmovaps ymm0, [{at}]",
    "vmovaps ymm1, [{at} + 32]",
    "vmovaps ymm2, [{at} + 64]",
    "vmovaps ymm3, [{at} + 96]",
    "vmovaps ymm4, [{at} + 128]",
    "vmovaps ymm5, [{at} + 160]",
    "vmovaps ymm6, [{at} + 192]",
    "vmovaps ymm7, [{at} + 224]",
    "vmovaps ymm8, [{at} + 256]",
    "vmovaps ymm9, [{at} + 288]",
    "vmovaps ymm10, [{at} + 320]",
    "vmovaps ymm11, [{at} + 352]",
    "vmovaps ymm12, [{at} + 384]",
    "vmovaps ymm13, [{at} + 416]",
    "vmovaps ymm14, [{at} + 448]",
    "vmovaps ymm15, [{at} + 480]",
    "vmovaps [{at} + {gap}], ymm0",
    "vmovaps [{at} + {gap} + 32], ymm1",
    "vmovaps [{at} + {gap} + 64], ymm2",
    "vmovaps [{at} + {gap} + 96], ymm3",
    "vmovaps [{at} + {gap} + 128], ymm4",
    "vmovaps [{at} + {gap} + 160], ymm5",
    "vmovaps [{at} + {gap} + 192], ymm6",
    "vmovaps [{at} + {gap} + 224], ymm7",
    "vmovaps [{at} + {gap} + 256], ymm8",
    "vmovaps [{at} + {gap} + 288], ymm9",
    "vmovaps [{at} + {gap} + 320], ymm10",
    "vmovaps [{at} + {gap} + 352], ymm11",
    "vmovaps [{at} + {gap} + 384], ymm12",
    "vmovaps [{at} + {gap} + 416], ymm13",
    "vmovaps [{at} + {gap} + 448], ymm14",
    "vmovaps [{at} + {gap} + 480], ymm15"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_sets_grow_and_fit_their_level() {
        for isa in [Isa::Avx512, Isa::Avx2, Isa::Neon] {
            let target = Target::generic(isa);
            let sets = working_sets(&target);
            assert_eq!(sets.iter().map(|(level, _)| *level).collect::<Vec<_>>(), ["L1", "L2", "L3", "DRAM"]);
            assert!(sets.windows(2).all(|pair| pair[0].1 < pair[1].1));
            assert!(sets[0].1 <= target.l1d && sets[1].1 <= target.l2 && sets[2].1 <= target.l3);
        }
        let mut target = Target::generic(Isa::Neon);
        target.l3 = 0;
        assert_eq!(working_sets(&target).len(), 3);
    }

    #[test]
    fn probes_give_finite_rates() {
        for rate in [core_probe(), measure_peak(1), measure_peak(0)] {
            assert!(rate.is_finite() && rate > 0.0, "{rate}");
        }
    }

    #[test]
    fn sweeps_do_what_they_say() {
        for isa in [usable_isa(), None] {
            let mut memory = Memory::new(8192).unwrap();
            let bytes = |memory: &Memory| {
                // SAFETY: the allocation has this size and every byte was written.
                unsafe { std::slice::from_raw_parts(memory.start, memory.len + COPY_SKEW).to_vec() }
            };
            // SAFETY: inside the allocation.
            unsafe { memory.start.write_bytes(9, 4096) };
            memory.sweep(isa, Sweep::Copy, 4096, 2);
            let after = bytes(&memory);
            assert!(after[..4096].iter().all(|&byte| byte == 9));
            assert!(after[4096..4096 + COPY_SKEW].iter().all(|&byte| byte == 1));
            assert!(after[4096 + COPY_SKEW..].iter().all(|&byte| byte == 9));
            memory.sweep(isa, Sweep::Read, 8192, 2);
            assert_eq!(bytes(&memory), after);
            memory.sweep(isa, Sweep::Write, 8192, 1);
            assert!(bytes(&memory)[..8192].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn small_levels_have_finite_bandwidth() {
        let level = measure_level("L1", 16 << 10).unwrap();
        assert_eq!((level.level.as_str(), level.bytes), ("L1", 16 << 10));
        for rate in [level.read_gbs, level.write_gbs, level.copy_gbs] {
            assert!(rate.is_finite() && rate > 0.0, "{rate}");
        }
    }
}
