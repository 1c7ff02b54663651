//! Machine code: made, run, and freed.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use cranelift_codegen::ir::{self, AbiParam, Endianness, types};
use cranelift_codegen::verify_function;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};

use crate::lower::{lower, lower_slices};
use crate::program::{INPUTS, Program, RESULTS, SLICES, WINDOW};

/// What compiled code is called as: with the window, the inputs, the data and the words beside the answer.
type Entry = unsafe extern "C" fn(*mut u8, u64, u64, *const u32, *mut u32) -> u32;

/// The same of code that looks at slices: with where each begins and how long it is, and the inputs.
type SliceEntry = unsafe extern "C" fn(*const u8, u64, *const u8, u64, u64, u64) -> u32;

/// Why there is no machine code: what Cranelift said. The program may be interpreted all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

impl Failed {
    fn of(error: impl fmt::Display) -> Failed {
        Failed(error.to_string())
    }
}

/// A program that looks at a window as machine code, with its data.
pub struct Code {
    /// Invariant: it was compiled from a program that sees `data.len()` words, in the module below, which is there as long as this is.
    entry: Entry,
    data: Box<[u32]>,
    _memory: Memory,
}

/// The module that code lies in. Only a module as a whole can be freed, so each has one of its own.
struct Memory(Mutex<Option<JITModule>>);

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(module) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // SAFETY: no function of the module is running, nor called afterwards. The only pointer to one is the `entry` of a `Code` or a `SliceCode`, which is
            // private, is not copied out, and is called in `Code::run_with` or `SliceCode::run` alone, for as long as that borrows the code; who drops this
            // owns the code, so that nobody borrows it, or never made one.
            unsafe { module.free_memory() };
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "code with {} words of data", self.data.len())
    }
}

impl Code {
    /// Compiles a program; its data are zeroes. It takes about a millisecond, and memory: not for workers.
    ///
    /// # Errors
    ///
    /// What Cranelift says where it does not know this processor, gets no memory, or has a defect.
    pub fn compile(program: &Program) -> Result<Code, Failed> {
        if program.has_slices {
            return Err(Failed("the program looks at slices".to_owned()));
        }
        let (memory, address) = make([POINTER, NUMBER, NUMBER, POINTER, POINTER], |builder| lower(program, builder))?;
        // SAFETY: the address is that of a function that was made just above, with this signature: the default calling convention of the target, which
        // is that of C, a pointer, two numbers of 64 bits, two pointers, and one number of 32 bits back.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(address) };
        Ok(Code { entry, data: vec![0; program.data()].into_boxed_slice(), _memory: memory })
    }

    /// Its data, to be changed.
    pub fn data_mut(&mut self) -> &mut [u32] {
        &mut self.data
    }

    /// What the program answers, changes, and hands on.
    #[inline]
    pub fn run(&self, window: &mut [u8; WINDOW], inputs: [u64; INPUTS], results: &mut [u32; RESULTS]) -> u32 {
        // Its own data are as many as it sees.
        self.run_with(window, inputs, &self.data, results).unwrap_or_default()
    }

    /// The same with other data: nothing, and nothing happened, if these are fewer words than the program sees.
    #[inline]
    pub fn run_with(
        &self,
        window: &mut [u8; WINDOW],
        inputs: [u64; INPUTS],
        data: &[u32],
        results: &mut [u32; RESULTS],
    ) -> Option<u32> {
        if data.len() < self.data.len() {
            return None;
        }
        let [first, second] = inputs;
        // SAFETY: by the invariant of `entry` this is what `lower` made of a program. It was compiled for the calling convention of C with these types, and its
        // code is there while `self` is. It has no loop, and reads and writes memory only at `window + at`, `data + 4 * number` and `results + 4 * word`, with
        // constants that `Builder` has checked: at + count <= WINDOW, number < `self.data.len()`, and word < RESULTS. There are
        // that many data, as was seen just above. Window and results are borrowed exclusively, the data are borrowed and so changed by nobody.
        let answer = unsafe { (self.entry)(window.as_mut_ptr(), first, second, data.as_ptr(), results.as_mut_ptr()) };
        Some(answer)
    }
}

/// A program that looks at slices as machine code.
pub struct SliceCode {
    /// Invariant: it was compiled from a program that looks at slices, in the module below, which is there as long as this is.
    entry: SliceEntry,
    _memory: Memory,
}

impl fmt::Debug for SliceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("code that looks at slices")
    }
}

impl SliceCode {
    /// Compiles a program. It takes about a millisecond, and memory: not for workers.
    ///
    /// # Errors
    ///
    /// What Cranelift says where it does not know this processor, gets no memory, or has a defect; and of a program that looks at a window.
    pub fn compile(program: &Program) -> Result<SliceCode, Failed> {
        if program.has_window {
            return Err(Failed("the program looks at a window".to_owned()));
        }
        let parameters = [POINTER, NUMBER, POINTER, NUMBER, NUMBER, NUMBER];
        let (memory, address) = make(parameters, |builder| lower_slices(program, builder))?;
        // SAFETY: the address is that of a function that was made just above, with this signature: the default calling convention of the target, which
        // is that of C, twice a pointer and a number of 64 bits, two more such numbers, and one of 32 bits back.
        let entry = unsafe { std::mem::transmute::<*const u8, SliceEntry>(address) };
        Ok(SliceCode { entry, _memory: memory })
    }

    /// What the program answers.
    #[inline]
    pub fn run(&self, slices: [&[u8]; SLICES], inputs: [u64; INPUTS]) -> u32 {
        let ([one, other], [first, second]) = (slices, inputs);
        let (one_length, other_length) = (one.len() as u64, other.len() as u64);
        // SAFETY: by the invariant of `entry` this is what `lower_slices` made of a program that looks at slices. It was compiled for the calling convention
        // of C with these types, and its code is there while `self` is. It has no loop, writes no memory, and reads memory in `Made::read` alone: `count`
        // bytes at `start + at` of a slice, behind a branch that was taken because at + count <= length. Both slices are borrowed, and so changed by nobody.
        unsafe { (self.entry)(one.as_ptr(), one_length, other.as_ptr(), other_length, first, second) }
    }
}

/// Of parameters: an address, and a number of 64 bits. Both are the same to Cranelift on the processors that code is made for.
const POINTER: ir::Type = types::I64;
const NUMBER: ir::Type = types::I64;

/// Makes a function of these parameters, which answers a number of 32 bits; where it begins is the address, as long as the memory is there.
fn make<const N: usize>(
    parameters: [ir::Type; N],
    write: impl Fn(&mut FunctionBuilder<'_>),
) -> Result<(Memory, *const u8), Failed> {
    // Cranelift says most of what is wrong by panicking.
    let made = catch_unwind(AssertUnwindSafe(|| make_or_panic(parameters, write)));
    made.unwrap_or_else(|_| Err(Failed("the compiler panicked".to_owned())))
}

fn make_or_panic<const N: usize>(
    parameters: [ir::Type; N],
    write: impl Fn(&mut FunctionBuilder<'_>),
) -> Result<(Memory, *const u8), Failed> {
    // What was written is verified below, once. Cranelift would verify what it makes of it, too, behind each of its passes, which takes nearly as long as all of them.
    let flags = [("opt_level", "speed"), ("enable_verifier", "false")];
    let builder = JITBuilder::with_flags(&flags, default_libcall_names()).map_err(Failed::of)?;
    let memory = Memory(Mutex::new(Some(JITModule::new(builder))));
    let mut place = memory.0.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(module) = place.as_mut() else { return Err(Failed("there is no module".to_owned())) };
    let (mut context, mut frontend) = (module.make_context(), FunctionBuilderContext::new());
    // What is lowered turns bytes round, and signatures have 64 bits.
    if module.target_config().pointer_type() != POINTER || module.isa().endianness() != Endianness::Little {
        return Err(Failed("no code is made for processors like this one".to_owned()));
    }
    let signature = &mut context.func.signature;
    signature.params.extend(parameters.map(AbiParam::new));
    signature.returns.push(AbiParam::new(types::I32));
    let function = module.declare_function("decide", Linkage::Export, &context.func.signature).map_err(Failed::of)?;
    let mut builder = FunctionBuilder::new(&mut context.func, &mut frontend);
    write(&mut builder);
    builder.finalize(module.target_config());
    verify_function(&context.func, module.isa()).map_err(Failed::of)?;
    module.define_function(function, &mut context).map_err(|error| Failed(format!("{error:?}")))?;
    module.finalize_definitions().map_err(Failed::of)?;
    let address = module.get_finalized_function(function);
    drop(place);
    Ok((memory, address))
}
