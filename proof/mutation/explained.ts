/** Guards that no test can notice, and why they stand all the same. */
export const EXPLAINED: Readonly<Record<string, string>> = {};
