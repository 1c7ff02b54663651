//! What this CPU has, and running safe code compiled for it.

use std::fmt;

/// A set of CPU features that has been found on this CPU: a value is the proof. Orders by power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel(Level);

/// What a [`Kernel`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What the target always has: portable code.
    Scalar,
    /// AVX2, BMI1, BMI2, LZCNT, MOVBE and POPCNT (x86-64-v3, about 2013 onwards).
    Avx2,
    /// The above, and AVX-512 F, BW, CD, DQ and VL (x86-64-v4).
    Avx512,
}

impl Level {
    /// All of them, weakest first.
    pub const ALL: [Self; 3] = [Self::Scalar, Self::Avx2, Self::Avx512];

    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn present(self) -> bool {
        macro_rules! all {
            ($($feature:tt),*) => { $(std::is_x86_feature_detected!($feature))&&* };
        }
        let avx2 = || all!("avx2", "bmi1", "bmi2", "lzcnt", "movbe", "popcnt");
        let avx512 = || all!("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl");
        match self {
            Self::Scalar => true,
            Self::Avx2 => avx2(),
            Self::Avx512 => avx2() && avx512(),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn present(self) -> bool {
        self == Self::Scalar
    }
}

/// Why a kernel cannot be had by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no kernel of that name.
    Unknown(String),
    /// This CPU lacks a feature that it needs.
    Absent(Level),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "no kernel is named {name:?}: use scalar, avx2 or avx512"),
            Self::Absent(level) => write!(f, "this CPU cannot run the {} kernel", level.name()),
        }
    }
}

impl std::error::Error for Error {}

impl Kernel {
    /// Portable code.
    pub const SCALAR: Self = Self(Level::Scalar);

    /// The best that this CPU has.
    pub fn detect() -> Self {
        Self::available().last().unwrap_or(Self::SCALAR)
    }

    /// All that this CPU has, weakest first.
    pub fn available() -> impl Iterator<Item = Self> {
        Level::ALL.into_iter().filter(|level| level.present()).map(Self)
    }

    /// The kernel of a [level's name](Level::name).
    ///
    /// # Errors
    ///
    /// [`Error`] when there is none of that name or this CPU cannot run it.
    pub fn named(name: &str) -> Result<Self, Error> {
        let level = Level::ALL.into_iter().find(|level| level.name() == name);
        let level = level.ok_or_else(|| Error::Unknown(name.to_owned()))?;
        if level.present() { Ok(Self(level)) } else { Err(Error::Absent(level)) }
    }

    /// What it stands for.
    #[inline(always)]
    pub fn level(self) -> Level {
        self.0
    }

    /// Calls `work` compiled for this kernel's instructions (population counts, bit fields, wide vectors), as far as
    /// the compiler can inline it: pass a closure and mark what it calls `#[inline(always)]`. One call per batch: it is
    /// a branch, and a barrier to inlining into the caller.
    #[inline]
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        match self.0 {
            Level::Scalar => work(),
            // SAFETY: a `Kernel` of this level exists only where its features were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { run_avx2(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { run_avx512(work) },
            #[cfg(not(target_arch = "x86_64"))]
            Level::Avx2 | Level::Avx512 => work(),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
fn run_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,movbe,popcnt")]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
fn run_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_levels_agree() {
        for level in Level::ALL {
            match Kernel::named(level.name()) {
                Ok(kernel) => assert_eq!((kernel.level(), kernel.to_string()), (level, level.name().to_owned())),
                Err(error) => assert_eq!(error, Error::Absent(level)),
            }
        }
        assert_eq!(Kernel::named("mmx"), Err(Error::Unknown("mmx".to_owned())));
        assert_eq!(Kernel::named("scalar"), Ok(Kernel::SCALAR));
    }

    #[test]
    fn detects_the_best_available() {
        assert_eq!(Kernel::available().max(), Some(Kernel::detect()));
        assert_eq!(Kernel::available().next(), Some(Kernel::SCALAR));
    }

    #[test]
    fn runs_work_on_each() {
        for kernel in Kernel::available() {
            let ones: u32 = kernel.run(|| (0..1000u32).map(u32::count_ones).sum());
            assert_eq!(ones, 4932, "{kernel}");
        }
    }
}
