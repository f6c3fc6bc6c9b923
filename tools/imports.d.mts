/** Whether `file` is one of `paths` or imports one. Paths are from `root`. */
export function importsAny(root: string, file: string, paths: ReadonlySet<string>): boolean;
