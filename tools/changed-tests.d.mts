export function findChangedFiles(root: string): string[];
export function findTestsOf(root: string, changed: readonly string[]): string[];
