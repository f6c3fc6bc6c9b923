/**
 * The holdfast that tests run. Over a run of `npm test` it is the executable that a release hands out, built once of these
 * sources: it starts with a third of the work that the checkout needs. A file that is run by itself takes the checkout.
 */
import { join } from 'node:path';

/** The variable in which tools/shared-engines.mjs names the executable. */
export const BUILT_HOLDFAST_VARIABLE = 'HOLDFAST_TEST_EXECUTABLE';
/** For tests of what is the checkout's own: its launcher, and that its sources run as they stand. */
export const CHECKOUT_HOLDFAST = join(import.meta.dir, '..', '..', 'bin', 'holdfast');
export const HOLDFAST = process.env[BUILT_HOLDFAST_VARIABLE] ?? CHECKOUT_HOLDFAST;
