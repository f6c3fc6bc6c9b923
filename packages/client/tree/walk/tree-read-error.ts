/** A node of a tree that cannot be had or is not what it should be, with the path it is needed for and what to do. */
import { CasError, VerificationError } from '../../errors.ts';
import { RottenNodeError } from '../../rotten-node.ts';
import { TreeFormatError } from '../format/tree-format.ts';
import { MissingNodeError } from '../jobs/patient-source.ts';
import { formatPath, type TreePath } from './tree-path.ts';

export class TreeReadError extends Error {
  override readonly name = 'TreeReadError';
  /** undefined is the root */
  readonly path: TreePath | undefined;

  constructor(path: TreePath | undefined, message: string, cause: unknown) {
    super(`${formatPath(path)}: ${message}`, { cause });
    this.path = path;
  }
}

/** Adds the path to an error about a node. An error about the connection or the rights has nothing to do with a path. */
export function withPath(path: TreePath | undefined, error: unknown): unknown {
  const message = explainNodeError(error);
  return message === undefined ? error : new TreeReadError(path, message, error);
}

/** Says in one line what is wrong with a node and what to do; undefined when the fault is not in the node. */
export function explainNodeError(error: unknown): string | undefined {
  if (error instanceof RottenNodeError)
    return `${error.message}; heal it from the original: holdfast push --check`;
  if (error instanceof VerificationError) return error.reason;
  if (error instanceof TreeFormatError) return `${error.message}; this is not a tree that a push has made`;
  if (error instanceof MissingNodeError) return error.message;
  if (error instanceof CasError && error.code === 'NOT_FOUND') {
    return `${error.reason}; it is not in this Space (any more): push the tree again, and hold it by a root ref`;
  }
  return undefined;
}
