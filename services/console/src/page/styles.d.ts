// esbuild takes style sheets out of the bundle into a file of their own.
declare module "*.css";
