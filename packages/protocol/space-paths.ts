/** The paths of the operations of a Space: which operations a raw path offers, and the path of an operation. */
import { OPERATIONS, type Operation, type OperationName } from './operations.ts';

/** Matches the raw path of a request; its groups are the variable parts, still percent-encoded and not judged. */
export function pathPattern(template: string): RegExp {
  return new RegExp(`^${template.replace(/\{(\w+)\}/g, '(?<$1>[^/]*)')}$`);
}

/** Throws RangeError for a part that is missing or that no path can carry (empty, `.`, `..`). */
export function fillPath(template: string, parts: Readonly<Record<string, string | undefined>>): string {
  return template.replace(/\{(\w+)\}/g, (_, part: string) => {
    const value = parts[part];
    if (value === undefined || value === '' || value === '.' || value === '..' || !value.isWellFormed()) {
      throw new RangeError(
        `${part} ${JSON.stringify(value)} cannot be part of a path; give a non-empty id other than . and ..`,
      );
    }
    return encodeURIComponent(value);
  });
}

export interface SpaceRoute {
  readonly path: string;
  readonly get: OperationName | undefined;
  readonly post: OperationName | undefined;
}

export const SPACE_ROUTES: readonly SpaceRoute[] = listSpaceRoutes();

function listSpaceRoutes(): SpaceRoute[] {
  const operations = Object.entries(OPERATIONS) as [OperationName, Operation][];
  const find = (path: string, method: Operation['method']): OperationName | undefined =>
    operations.find(([, operation]) => operation.path === path && operation.method === method)?.[0];
  const paths = new Set(operations.map(([, { path }]) => path));
  return [...paths].map((path) => ({ path, get: find(path, 'GET'), post: find(path, 'POST') }));
}

/** A path of the Space plane, its variable parts still percent-encoded (judge them with `parsePathId`, `isHash`). */
export interface SpacePathMatch {
  readonly route: SpaceRoute;
  readonly appId: string;
  readonly spaceId: string;
  /** `undefined` for operations on the Space as a whole. */
  readonly hash: string | undefined;
}

const SPACE_PATTERNS = SPACE_ROUTES.map((route) => ({ route, pattern: pathPattern(route.path) }));

/** Matches a raw path by its fixed segments; `undefined`: no operation lives there. The form of ids is not judged here. */
export function matchSpacePath(path: string): SpacePathMatch | undefined {
  for (const { route, pattern } of SPACE_PATTERNS) {
    const found = pattern.exec(path)?.groups;
    if (found === undefined) continue;
    const { appId = '', spaceId = '', hash } = found;
    return { route, appId, spaceId, hash };
  }
  return undefined;
}

/** The path of an operation, ids percent-encoded. Throws RangeError for an id that no path can carry, or a missing hash. */
export function operationPath(
  name: OperationName,
  target: { readonly appId: string; readonly spaceId: string; readonly hash?: string },
): string {
  return fillPath(OPERATIONS[name].path, target);
}
