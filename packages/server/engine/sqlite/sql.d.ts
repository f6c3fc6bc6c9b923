/** Bun inlines a file imported `with { type: 'text' }`. */
declare module '*.sql' {
  const text: string;
  // biome-ignore lint/style/noDefaultExport: this is how Bun gives a text file
  export default text;
}
