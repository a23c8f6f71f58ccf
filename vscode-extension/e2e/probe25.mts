import path from "node:path";
import { World } from "./rig/world.ts"; import { Code, startBrowser } from "./rig/code.ts"; import { Workbench } from "./rig/workbench.ts";
const world=new World({}); const {browser,stop}=await startBrowser();
const code=await Code.start(world,{bare:true,driver:true,sidecar:false,settings:JSON.parse(process.argv[2]??"{}")});
try{
 const ctx=await browser.newContext({viewport:{width:1280,height:800}}); const page=await ctx.newPage(); page.setDefaultTimeout(15000);
 page.on('console',m=>{if(m.type()==='error')console.log(m.text().slice(0,300))});
 const vs=new Workbench(page,code,"/tmp/rv25/shots");
 await page.goto(code.address(world.repository,[["extensionDevelopmentPath",code.remote("/tmp/rv25/ext")]])); await vs.loaded(); await page.waitForTimeout(12000);
 await vs.command("Probe Open"); await page.waitForTimeout(4000); await vs.shot("1-changes");
 await vs.command("Probe Jump");await page.waitForTimeout(1500);await vs.shot("1b-jump");await page.mouse.move(800,400);await page.mouse.wheel(0,1500);await page.waitForTimeout(500); await vs.shot("1c-scrolled");await vs.command("Probe Jump");await page.waitForTimeout(1500);await vs.shot("1d-jumpback");await vs.command("Probe Reveal"); await page.waitForTimeout(3000); await vs.shot("2-reveal");
 await page.keyboard.press("ArrowDown"); await vs.command("Probe Report");
 await page.mouse.click(900,300); await vs.command("Probe Report"); await page.waitForTimeout(500); await vs.shot("3-click");
 console.log(await vs.tabs());
}catch(e){console.log(e)}finally{await code.stop();await browser.close();await stop().catch(()=>{});await world.remove();}
