/** The engines a test file needs; `file` is a path from `root`. */
export function findNeededEngines(root: string, file: string): string[];
