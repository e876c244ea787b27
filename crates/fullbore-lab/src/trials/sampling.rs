//! Tries sampling the kernel, and reading the names of its functions.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use fullbore::Pipe;
use perf_event::data::Record;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, SampleFlag};

use super::attempt::{Given, Stop, at, io_at};

/// Nanoseconds of CPU time between two samples.
const PERIOD: u64 = 250_000;

/// The longest time for which samples are taken.
const TIME: Duration = Duration::from_millis(400);

/// The number of samples after which sampling ends.
const ENOUGH: usize = 50;

/// Returns whether an address belongs to the kernel: the upper half, on every 64-bit architecture on
/// which this runs. The marks between the parts of a call chain (such as `PERF_CONTEXT_KERNEL`) are
/// the last 4096 numbers.
fn is_in_the_kernel(address: u64) -> bool {
    address >> 63 == 1 && address < u64::MAX - 4095
}

/// Samples a loop that is mostly in the kernel, by the software clock, which is also available without
/// hardware counters.
pub(super) fn sampling(_: &Given) -> Result<String, Stop> {
    let mut counter = Builder::new(Software::CPU_CLOCK);
    counter
        .include_kernel()
        .sample_period(PERIOD)
        .sample(SampleFlag::IP | SampleFlag::CALLCHAIN);
    let counter = counter.build().map_err(io_at("perf_event_open"))?;
    let mut sampler = counter.sampled(64).map_err(io_at("mmap of the samples"))?;
    sampler.enable().map_err(io_at("start sampling"))?;
    let pipe = Pipe::new()?;
    let mut buffer = [7; 4096];
    let (mut samples, mut in_kernel, mut deepest) = (0, 0, 0);
    let began = Instant::now();
    while began.elapsed() < TIME && in_kernel < ENOUGH {
        for _ in 0..64 {
            rustix::io::write(&pipe.writer, &buffer).map_err(at("write"))?;
            rustix::io::read(&pipe.reader, &mut buffer).map_err(at("read"))?;
        }
        while let Some(record) = sampler.next_record() {
            let Ok(Record::Sample(sample)) = record.parse_record() else {
                continue;
            };
            samples += 1;
            if sample.ip().is_some_and(is_in_the_kernel) {
                in_kernel += 1;
                let chain = sample.callchain().unwrap_or_default();
                let frames = chain
                    .iter()
                    .filter(|&&frame| is_in_the_kernel(frame))
                    .count();
                deepest = deepest.max(frames);
            }
        }
    }
    if in_kernel == 0 || deepest < 2 {
        return Err(Stop::seen(
            "perf_event_open",
            format!("{samples} samples, {in_kernel} of them in the kernel, chains of {deepest}"),
        ));
    }
    Ok(format!(
        "{in_kernel} samples in the kernel, call chains of up to {deepest} functions"
    ))
}

pub(super) fn kernel_names(_: &Given) -> Result<String, Stop> {
    let symbols = File::open("/proc/kallsyms").map_err(io_at("open /proc/kallsyms"))?;
    let mut named = 0;
    for line in BufReader::new(symbols).lines().take(1000) {
        let line = line.map_err(io_at("read /proc/kallsyms"))?;
        let address = line.split(' ').next().unwrap_or_default();
        named += usize::from(u64::from_str_radix(address, 16).is_ok_and(|address| address != 0));
    }
    if named == 0 {
        return Err(Stop::seen("/proc/kallsyms", "every address in it is 0"));
    }
    Ok("/proc/kallsyms has names with addresses".into())
}

pub(super) fn hardware_counters(_: &Given) -> Result<String, Stop> {
    let mut counter = Builder::new(Hardware::CPU_CYCLES)
        .build()
        .map_err(io_at("perf_event_open"))?;
    counter.enable().map_err(io_at("start counting"))?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(2) {
        black_box(began);
    }
    match counter.read().map_err(io_at("read a counter"))? {
        0 => Err(Stop::seen("perf_event_open", "the cycles of a loop are 0")),
        cycles => Ok(format!("{cycles} cycles in 2 ms")),
    }
}
