/** The door of the server: what the command line and tests may use. */
export { findRegistry, openRegistry, type Registry, RegistryError } from './admin.ts';
