/** Rules for entries that stay out of a tree: patterns in the syntax of `.gitignore`, from files in the tree and from outside. */
import ignore, { type Ignore } from 'ignore';
import { type ByteString, findText } from '../byte-names.ts';

/** The pattern file that every push honours unless told otherwise. */
export const IGNORE_FILE_NAME = '.holdfastignore';

interface Layer {
  /** path of the folder from the root of the tree; '' for the root */
  readonly folder: ByteString;
  readonly patterns: readonly string[];
  matcher: Ignore;
  tests: number;
}

/** The rules that hold in one folder. Immutable: `enter` gives those of a folder below. */
export class IgnoreRules {
  /** The innermost file comes first, because it decides, as in git. */
  readonly #layers: readonly Layer[];
  /** above all files in the tree */
  readonly #outside: Layer | undefined;

  private constructor(layers: readonly Layer[], outside: Layer | undefined) {
    this.#layers = layers;
    this.#outside = outside;
  }

  /** `patterns`: texts of pattern files from outside the tree; they decide before those in it. */
  static from(patterns: readonly string[]): IgnoreRules {
    return new IgnoreRules([], patterns.length === 0 ? undefined : layer('', patterns));
  }

  /** The rules in `folder` when its own pattern files hold `patterns`. */
  enter(folder: ByteString, patterns: readonly string[]): IgnoreRules {
    if (patterns.length === 0) return this;
    return new IgnoreRules([layer(folder, patterns), ...this.#layers], this.#outside);
  }

  get isEmpty(): boolean {
    return this.#layers.length === 0 && this.#outside === undefined;
  }

  /** `path` from the root of the tree. A name that is no UTF-8 matches nothing. */
  isIgnored(path: ByteString, isDirectory: boolean): boolean {
    if (this.isEmpty) return false;
    const layers = this.#outside === undefined ? this.#layers : [this.#outside, ...this.#layers];
    for (const one of layers) {
      const { folder } = one;
      const text = findText(folder === '' ? path : path.slice(folder.length + 1));
      if (text === undefined || !ignore.isPathValid(text)) continue;
      one.tests += 1;
      // The library remembers every path, so a new instance replaces it now and then.
      if (one.tests > 20_000) {
        one.tests = 0;
        one.matcher = createMatcher(one.patterns);
      }
      const { ignored, unignored } = one.matcher.test(isDirectory ? `${text}/` : text);
      if (ignored || unignored) return ignored;
    }
    return false;
  }
}

function layer(folder: ByteString, patterns: readonly string[]): Layer {
  return { folder, patterns, matcher: createMatcher(patterns), tests: 0 };
}

function createMatcher(patterns: readonly string[]): Ignore {
  // Git tells upper from lower case wherever the file system does.
  const matcher = ignore({ ignorecase: false });
  for (const text of patterns) matcher.add(text);
  return matcher;
}
