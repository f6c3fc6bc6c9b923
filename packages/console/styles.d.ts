/** The bundler takes a style sheet that is imported for its effect. */
declare module '*.css';
