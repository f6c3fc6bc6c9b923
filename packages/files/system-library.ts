/** Functions of the system's C library that no runtime offers by itself. Bun can call them; other runtimes cannot. */

const LIBRARIES: readonly string[] = [
  'libc.so.6',
  'libSystem.B.dylib',
  `libc.musl-${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}.so.1`,
  'libc.so',
];

interface Signature {
  readonly args: readonly string[];
  readonly returns: string;
}

/** Node has this since 20.16. */
interface Builtins {
  getBuiltinModule?(id: string): unknown;
}

interface ForeignFunctions {
  dlopen(library: string, functions: Readonly<Record<string, Signature>>): { readonly symbols: unknown };
}

/** Finds functions when they are first asked for, as `F` says; undefined where the runtime or the library lacks one. */
export function seekSystemFunctions<F>(
  functions: Readonly<Record<keyof F & string, Signature>>,
): () => F | undefined {
  let found: { readonly functions: F | undefined } | undefined;
  return () => {
    found ??= { functions: open(functions) };
    return found.functions;
  };
}

function open<F>(functions: Readonly<Record<keyof F & string, Signature>>): F | undefined {
  const foreign = (process as Builtins).getBuiltinModule?.('bun:ffi') as ForeignFunctions | undefined;
  if (foreign === undefined) return undefined;
  for (const library of LIBRARIES) {
    try {
      return foreign.dlopen(library, functions).symbols as F;
    } catch {
      // Another system calls its library otherwise.
    }
  }
  return undefined;
}
